"""Ask the clients of the older era for input: ``elicitation/create`` on the stream of the call that needs it
(2025-06-18 and 2025-11-25, client/elicitation). The answer comes as a POST of its own, which may reach another replica
(:mod:`call_notices`).

A call that waits for an answer holds no connection to the backend. It holds one of its caller's streams.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from gateway import jsonrpc
from gateway.errors import BadBackendAnswer, CapabilityRequired, InputRequired, MissingCapability
from gateway.invocation.input_requests import WAIT
from gateway.invocation.invocation import Call, Invocation
from gateway.jsonrpc import ClientResponse, Id
from gateway.model import JsonObject, Outcome
from gateway.telemetry.record import RECORD
from gateway.text import excerpt

Outbox: TypeAlias = asyncio.Queue[bytes | None]
"""Messages for the stream of a call; None after the last."""

_METHOD: Final = "elicitation/create"
_ACTIONS: Final = ("accept", "decline", "cancel")
_MAX_ERROR: Final = 200
_MOST_ROUNDS: Final = 10


class PendingElicitations:
    """Hold the questions of one mount that wait for an answer. The key is the session and the request's id, so that a
    response counts only in the session that was asked, which belongs to one caller."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Id], asyncio.Future[ClientResponse]] = {}

    def __repr__(self) -> str:
        return f"<PendingElicitations: {len(self._waiting)} wait>"

    def add(self, session: str, id: Id) -> asyncio.Future[ClientResponse]:
        """Return the future response to a request."""
        future = self._waiting[session, id] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self._waiting.pop((session, id), None))
        return future

    def answer(self, session: str, response: ClientResponse) -> bool:
        """Give a response to the call that waits for it. Return False where none does here: it may wait on another
        replica, or this is a second response."""
        future = None if response.id is None else self._waiting.get((session, response.id))
        if future is None:
            return False
        if not future.done():  # it leaves the table only in the next turn of the loop
            future.set_result(response)
        return True

    def end_session(self, session: str) -> None:
        """End the questions of a session that ended: it can answer them no more."""
        for (asked, _), future in self._waiting.items():
            if asked == session and not future.done():
                future.set_exception(InputRequired("The session in which the user was asked ended; so did the call"))


class Elicitor:
    """Ask the client of one call."""

    def __init__(self, pending: PendingElicitations, session: str) -> None:
        self.outbox: Outbox = asyncio.Queue()
        self._pending = pending
        self._session = session
        self._asked: asyncio.Future[ClientResponse] | None = None
        self._closed = False

    async def ask(self, requests: JsonObject) -> JsonObject:
        """Return the responses to input requests, by name. Raise :class:`~gateway.errors.InputRequired` where one of
        them has no response after :data:`WAIT` seconds, the stream ends, or the client cannot ask."""
        responses = {}
        try:
            async with asyncio.timeout(WAIT):
                for name, request in requests.items():
                    responses[name] = await self._ask(request["params"])
        except TimeoutError:
            raise InputRequired(f"The user did not answer within {WAIT / 60:g} minutes, so the call ended") from None
        return responses

    def close(self) -> None:
        """End a question that waits, and refuse later ones: the client has closed the stream."""
        self._closed = True
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(_closed())

    async def _ask(self, params: JsonObject) -> JsonObject:
        if self._closed:
            raise _closed()
        id = f"elicit-{secrets.token_urlsafe(12)}"
        self._asked = self._pending.add(self._session, id)
        self.outbox.put_nowait(jsonrpc.request_bytes(id, _METHOD, _params_of(params, id)))
        try:
            return _result(await self._asked)
        except asyncio.CancelledError:
            self._asked.cancel()
            withdrawal = {"requestId": id, "reason": "the call ended"}
            self.outbox.put_nowait(jsonrpc.request_bytes(None, "notifications/cancelled", withdrawal))
            raise


def _params_of(params: JsonObject, id: str) -> dict[str, Any]:
    """Return the params of an input request of 2026-07-28 as those of this era. A URL has an id there (2025-11-25), and
    a form needs no ``mode``, which 2025-06-18 does not know."""
    if params.get("mode") == "url":
        return {"elicitationId": id, **params}
    return {name: value for name, value in params.items() if name != "mode"}


def _result(response: ClientResponse) -> JsonObject:
    """Return an ``ElicitResult``. Raise :class:`~gateway.errors.InputRequired` for anything else."""
    result = response.result
    if isinstance(result, Mapping) and result.get("action") in _ACTIONS:
        return dict(result)
    reason = response.error.get("message") if isinstance(response.error, Mapping) else None
    said = f": {excerpt(reason, _MAX_ERROR)}" if isinstance(reason, str) else ""
    raise InputRequired(f"The client could not ask the user{said}; the call ended")


def _closed() -> InputRequired:
    return InputRequired("The stream on which the user can be asked is closed; the call ended")


async def execute_and_ask(invocation: Invocation, call: Call, elicitor: Elicitor) -> Outcome:
    """Execute a call, and ask its client for the input that it needs, until it comes to a value or a fault. Raise as
    :meth:`Invocation.prepare` and :meth:`Call.execute` do."""
    record = RECORD.get()
    try:
        for _ in range(_MOST_ROUNDS):
            outcome = await call.execute(answer_started=True)
            if outcome.input_request is None or call.extras is None:
                return outcome
            record.outcome = ""  # the question was noted, but the request ends with what comes of it
            responses = await elicitor.ask(outcome.input_request.requests)
            if not call.caller.token_still_valid(time.time()):
                raise InputRequired("The access token expired before the user had answered; the call ended")
            extras = replace(call.extras, responses=responses, state=outcome.input_request.state)
            call = await invocation.prepare(call.caller, call.tool.name, call.arguments, extras)
        raise BadBackendAnswer(f"The backend asked for input {_MOST_ROUNDS} times; the call ended")
    except (InputRequired, BadBackendAnswer) as fault:
        record.note_outcome(fault.slug)
        return Outcome(call.tool, fault=fault)
    except MissingCapability as error:
        return Outcome(call.tool, fault=CapabilityRequired(error.message))


def declared_modes(capabilities: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modes of elicitation that a client declares, of those that its revision knows. An empty declaration
    means ``form`` (2025-11-25, client/elicitation "Capabilities")."""
    declared = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    if not isinstance(declared, Mapping):
        return ()
    return tuple(mode for mode in known if mode in (declared or ("form",)))
