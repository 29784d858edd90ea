"""Bring what a client says of its call to the replica where the call is: that it is cancelled, or its user's answer.

Both come as a POST of their own, which may reach another replica than the call did. What finds no call here is told to
all replicas by a notice of the store. There it is heard at most once: ids of calls are used once in a session, and the
id of a question is the gateway's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway import jsonrpc
from gateway.discovery.subscriptions import SESSION_ENDED
from gateway.errors import StoreUnavailable, TooLarge
from gateway.jsonrpc import ClientResponse, Id
from gateway.mcp.elicitation import PendingElicitations
from gateway.mcp.running import RunningCalls
from gateway.store import Store

MAX_ANSWER: Final = 64 * 1024
"""Bytes of the largest answer to a question, as JSON: a notice has to hold it."""
_AWAY: Final = "No call waits here for this answer, and other replicas cannot be told at the moment; answer again"
_RETRY_AFTER: Final = 1
_TOPIC: Final = "call"
_CANCELLED: Final = "cancelled"
_ANSWERED: Final = "answered"


class CallNotices:
    """Find the calls of one mount, here or on other replicas. ``running`` and ``elicitations`` are the mount's."""

    def __init__(self, running: RunningCalls, elicitations: PendingElicitations, store: Store) -> None:
        self.running = running
        self.elicitations = elicitations
        self._store = store
        self._ends: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<CallNotices of {self.running!r}, {self.elicitations!r}>"

    def follow(self) -> None:
        """Hear the notices of other replicas from now on, and which sessions end."""
        sessions = self._store.subscribe(SESSION_ENDED, lambda ended: self.elicitations.end_session(ended.decode()))
        self._ends = [self._store.subscribe(_TOPIC, self._hear), sessions]

    def close(self) -> None:
        """Hear no notices any more."""
        for end in self._ends:
            end()

    async def cancel(self, session: str, id: Id) -> None:
        """Cancel a call, on whichever replica it is being prepared or runs."""
        if not self.running.cancel(session, id):
            await self._tell(_CANCELLED, session, id)

    async def answer(self, session: str, response: ClientResponse) -> None:
        """Give a response to the call that waits for it, on whichever replica. Raise
        :class:`~gateway.errors.TooLarge`, and :class:`~gateway.errors.StoreUnavailable` where other replicas cannot be
        told at the moment: then the call still waits."""
        outcome = [response.result, response.error]
        if len(jsonrpc.encode(outcome)) > MAX_ANSWER:
            raise TooLarge(f"The answer of a user may have at most {MAX_ANSWER // 1024} KiB as JSON; answer with less")
        if response.id is None or self.elicitations.answer(session, response):
            return
        if not await self._tell(_ANSWERED, session, response.id, *outcome):
            raise StoreUnavailable(_AWAY, retry_after=_RETRY_AFTER)

    async def _tell(self, *what: Any) -> bool:
        return await self._store.publish(_TOPIC, jsonrpc.encode(what))

    def _hear(self, notice: bytes) -> None:
        """Do what another replica was told. A replica of another version may say what this one does not know."""
        try:
            match jsonrpc.decode(notice):
                case [str(what), str(session), str() | int() as id] if what == _CANCELLED:
                    self.running.cancel(session, id)
                case [str(what), str(session), str() | int() as id, result, error] if what == _ANSWERED:
                    self.elicitations.answer(session, ClientResponse(id, result, error))
        except ValueError:
            return
