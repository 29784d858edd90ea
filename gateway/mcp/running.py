"""Keep the running calls of the older era, so that clients can cancel them: ``notifications/cancelled`` names a call by
its request's id (2025-11-25, basic/utilities/cancellation). Send progress notifications while a call runs: they are a
heartbeat, since JSON-RPC backends report no progress. The value grows by one with each (2026-07-28,
basic/patterns/progress). Send notices that tools have changed, to the streams of both eras.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar

from gateway import jsonrpc
from gateway.discovery.subscriptions import SESSION_ENDED, StreamEvent, Subscriptions
from gateway.errors import StoreUnavailable, TooLarge
from gateway.jsonrpc import ClientResponse, Id, Request
from gateway.limits import StreamLimit
from gateway.mcp.elicitation import Elicitor, Outbox, PendingElicitations
from gateway.mcp.messages import Events
from gateway.model import Caller
from gateway.store import Store
from gateway.telemetry.logs import to_gateway_error
from gateway.telemetry.record import CANCELLED, RECORD, count_late_exchanges
from gateway.units import format_duration

Result = TypeVar("Result")


class RunningCalls:
    """Hold the calls of one mount until they are over: after a reload has swapped the service, a client may still
    cancel an earlier call. The key is the session and the request id, since many clients choose the same ids. A call
    without a session (None) cannot be cancelled by a notification."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cancels: dict[tuple[str, Id], Callable[[], object]] = {}

    def __repr__(self) -> str:
        return f"<RunningCalls: {len(self._tasks)} running, {len(self._cancels)} can be cancelled>"

    @contextmanager
    def preparing(self, session: str, id: Id) -> Iterator[asyncio.Event]:
        """Yield an event that is set if the client cancels the call before :meth:`start`."""
        cancelled = asyncio.Event()
        self._cancels[session, id] = cancelled.set
        try:
            yield cancelled
        finally:
            self._forget(session, id, cancelled.set)

    def start(
        self, work: Coroutine[Any, Any, Result], session: str | None, id: Id, end: asyncio.Future[None] | None = None
    ) -> asyncio.Task[Result]:
        """Run a call as a task, which continues when its client has hung up. ``end`` is done once the call is over; it
        is what the client waits for, in place of ``asyncio.shield`` and its callbacks."""
        task = asyncio.create_task(work)
        record = RECORD.get()
        memory = record.memory
        memory.users += 1
        self._tasks.add(task)
        if session is not None:
            self._cancels[session, id] = task.cancel

        def forget(_: object) -> None:
            if end is not None and not end.done():
                end.set_result(None)
            self._tasks.discard(task)
            if session is not None:
                self._forget(session, id, task.cancel)
            memory.end()
            if record.ended:
                count_late_exchanges(record)
            if task.cancelled():
                record.note_outcome(CANCELLED)
            else:
                task.exception()  # read it, or asyncio logs it as never retrieved

        task.add_done_callback(forget)
        return task

    def cancel(self, session: str, id: Id) -> bool:
        """Cancel a call that is being prepared or runs. Return False where there is none: it may be over already, or
        run on another replica."""
        cancel = self._cancels.get((session, id))
        if cancel is not None:
            cancel()
        return cancel is not None

    def _forget(self, session: str, id: Id, cancel: Callable[[], object]) -> None:
        if self._cancels.get((session, id)) == cancel:  # a client may reuse an id, although MCP forbids it
            del self._cancels[session, id]

    async def close(self) -> None:
        """Cancel all running calls and wait until they are over."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


MAX_ANSWER: Final = 64 * 1024
"""Bytes of the largest answer to a question, as JSON: a notice has to hold it."""
_AWAY: Final = "No call waits here for this answer, and other replicas cannot be told at the moment; answer again"
_RETRY_AFTER: Final = 1
_TOPIC: Final = "call"
_CANCELLED: Final = "cancelled"
_ANSWERED: Final = "answered"


class CallNotices:
    """Bring cancellations and users' answers to the replica of their call: each comes as a POST of its own, which may
    reach another one. What finds no call here is told to all by a notice. At most one heeds it, since ids are used once
    in a session. ``running`` and ``elicitations`` are the mount's."""

    def __init__(self, running: RunningCalls, elicitations: PendingElicitations, store: Store) -> None:
        self.running = running
        self.elicitations = elicitations
        self._store = store
        self._ends: list[Callable[[], None]] = []

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


async def stream_progress(
    request: Request,
    token: str | int | None,
    start: Callable[[], asyncio.Task[dict[str, Any]]],
    heartbeat: float,
    held: AbstractContextManager[None],
    *,
    cancels: bool,
    tool: str = "",
    elicitor: Elicitor | None = None,
) -> Events:
    """Yield progress while the task that ``start`` returns runs, every ``heartbeat`` seconds; without a ``token``,
    keep-alives. Then yield its response, with the result or the error.

    ``held`` counts the stream while it is open. ``cancels`` says whether closing the stream early cancels the task.
    ``tool`` is the name in the ``message`` of the notifications; without it they have none (2024-11-05 does not know
    the member). The questions of ``elicitor`` are sent at once; the one that waits ends with the stream.
    """
    outbox: Outbox = asyncio.Queue() if elicitor is None else elicitor.outbox
    beat = 0
    with held:
        work = start()
        work.add_done_callback(lambda _: outbox.put_nowait(None))
        try:
            yield _beat(token, beat, tool, heartbeat)
            while True:
                try:
                    async with asyncio.timeout(heartbeat):
                        message = await outbox.get()
                except TimeoutError:
                    beat += 1
                    yield _beat(token, beat, tool, heartbeat)
                    continue
                if message is None:
                    break
                yield message
            if not work.cancelled():  # a call that was cancelled gets no response
                yield _response_bytes(request, work)
        finally:
            if elicitor is not None:
                elicitor.close()
            if cancels and not work.done():
                work.cancel()
                await asyncio.wait({work})
            if work.done() and not work.cancelled():
                work.exception()  # read it, or asyncio logs it as never retrieved


def _response_bytes(request: Request, work: asyncio.Task[dict[str, Any]]) -> bytes:
    error = work.exception()
    if error is None:
        return jsonrpc.response_bytes(request.id, work.result())
    failure = to_gateway_error(error, method=request.method)
    RECORD.get().note_error(failure)
    return jsonrpc.error_bytes(request.id, failure)


def _beat(token: str | int | None, beat: int, tool: str, heartbeat: float) -> bytes | None:
    if token is None:
        return None
    params: dict[str, Any] = {"progressToken": token, "progress": beat}
    if tool:
        waited = f", {format_duration(round(beat * heartbeat, 3))} so far" if beat else ""
        params["message"] = f"Waiting for {tool}{waited}"
    return jsonrpc.request_bytes(None, "notifications/progress", params)


async def stream_notices(
    subscriptions: Subscriptions,
    epoch: int,
    streams: StreamLimit,
    caller: Caller,
    first: bytes | None,
    changed: bytes | None,
    last: bytes | None,
    session: str | None,
) -> Events:
    """Yield ``first``; then ``changed`` when tools have changed, unless it is None, and keep-alives; and ``last`` when
    the gateway ends the stream. Only a session's newest stream gets changes: MCP forbids to send one twice. A stream
    stays open for hours: it must not hold a service that a reload swapped."""
    with streams.hold_stream(caller):
        subscription = subscriptions.subscribe(caller.view, session, epoch)
        try:
            yield first
            while not StreamEvent.END & (event := await subscription.next_event()):
                if not caller.token_still_valid(time.time()):
                    break
                subscriptions.refresh(caller)
                if StreamEvent.CHANGED in event and changed is not None:
                    yield changed
                elif StreamEvent.TICK in event:
                    yield None
            if last is not None:
                yield last
        finally:
            subscriptions.unsubscribe(subscription)
