"""Sessions of the older era. The gateway keeps no state for them: the signed id holds all.

An id holds the negotiated revision and what the client can ask its user. Its signature covers the caller and the time,
so that any replica can serve it. An id does not authenticate: sent by another caller it is refused. ``DELETE`` leaves a
tombstone in the store until the id would have expired.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.discovery.subscriptions import SESSION_ENDED
from gateway.errors import SessionNotFound
from gateway.limits import Budget
from gateway.model import Caller
from gateway.signing import SKEW, Signer, SigningKeys
from gateway.store import Store

TTL: Final = 24 * 3600.0
"""Seconds for which a session is good."""


@dataclass(frozen=True, slots=True)
class Session:
    """A verified session: ``revision`` is the negotiated one, ``elicits`` are the modes in which the client can ask its
    user for input, ``client`` is what it calls itself."""

    revision: str
    elicits: tuple[str, ...] = ()
    client: str = ""


class Sessions:
    """Issue and verify session ids. ``keys`` are the resource's; ``ends`` limits how many sessions a caller may end,
    since the store remembers each for a day; ``clock`` gives wall-clock seconds, since replicas compare them."""

    def __init__(self, keys: SigningKeys, store: Store, ends: Budget, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(keys, "session", TTL, clock)
        self._store = store
        self._ends = ends

    def open_session(self, revision: str, caller: Caller, elicits: tuple[str, ...] = (), client: str = "") -> str:
        """Return the id of a new session. ``client`` is short and has no line ends."""
        text = "\n".join((revision, " ".join(elicits), client, secrets.token_urlsafe(12)))
        return self._signer.sign(text, *caller.identity)

    async def read_session(self, id: str, caller: Caller) -> Session:
        """Verify a session id. Raise :class:`SessionNotFound`: forged, expired, ended, or another caller's."""
        text = self._signer.verify(id, *caller.identity)
        if text is not None and not await self._store.has(_tombstone(id)):
            revision, elicits, client, _ = text.split("\n")
            return Session(revision, tuple(elicits.split()), client)
        raise SessionNotFound("Session not found: it ended or was never opened here; initialize again")

    async def end_session(self, id: str, caller: Caller) -> None:
        """End a session. Raise :class:`SessionNotFound`, :class:`~gateway.errors.RateLimited`."""
        await self.read_session(id, caller)
        await self._ends.spend(caller)
        await self._store.mark(_tombstone(id), TTL + SKEW)
        await self._store.publish(SESSION_ENDED, id.encode())


def _tombstone(id: str) -> str:
    return f"{SESSION_ENDED}:{id}"
