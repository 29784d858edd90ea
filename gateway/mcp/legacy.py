"""2024-11-05 to 2025-11-25: ``initialize`` negotiates a revision, which later requests name in a header or a session.

A session is an id that says all there is to know (:mod:`sessions`); a client that shows none is served as well. A
request that names no revision is of 2025-03-26 (2025-11-25, basic/transports "Protocol Version Header"). JSON-RPC
errors travel on HTTP 200, since clients take a 404 for the end of a session. A client that hangs up cancels nothing
here; it says so with ``notifications/cancelled``. Batches exist at 2025-03-26 alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway import batch, jsonrpc
from gateway.batch import Room
from gateway.catalog.changes import Event
from gateway.errors import (
    GatewayError,
    InvalidRequest,
    MethodNotAllowed,
    MethodNotFound,
    NotAcceptable,
    ParseError,
)
from gateway.invocation import Call, Invocation
from gateway.jsonrpc import BadMessage, Id, Message, Notification, Request
from gateway.mcp import progress, server_info
from gateway.mcp.content import BLOCKS_2024_11, BLOCKS_2025_03, BLOCKS_2025_06, ResultShape, outcome_members
from gateway.mcp.exchange import LAST_EVENT, PROTOCOL_VERSION, SESSION, Events, Inbound, Reply, StreamReply
from gateway.mcp.operations import Operations, asked_call
from gateway.mcp.projection import ToolProjector
from gateway.mcp.sessions import Session, Sessions


@dataclass(frozen=True, slots=True)
class Revision:
    """What a revision knows of servers, tools and results."""

    version: str
    projector: ToolProjector
    shape: ResultShape
    introduces: tuple[str, ...]
    batches: bool = False
    explains_progress: bool = True


_STRUCTURED: Final = ToolProjector("2025-06-18", objects_only=True)
_ANNOTATED: Final = ToolProjector("2025-03-26", titles=False, outputs=False)
_PLAIN: Final = ToolProjector("2024-11-05", annotations=False, titles=False, outputs=False)

REVISIONS: Final = {
    revision.version: revision
    for revision in (
        Revision("2025-11-25", _STRUCTURED, ResultShape(True, True, BLOCKS_2025_06), server_info.WHOLE),
        Revision("2025-06-18", _STRUCTURED, ResultShape(True, True, BLOCKS_2025_06), server_info.TITLED),
        Revision("2025-03-26", _ANNOTATED, ResultShape(False, True, BLOCKS_2025_03), server_info.PLAIN, batches=True),
        Revision(
            "2024-11-05", _PLAIN, ResultShape(False, True, BLOCKS_2024_11), server_info.PLAIN, explains_progress=False
        ),
    )
}
VERSIONS: Final = tuple(REVISIONS)
LATEST: Final = VERSIONS[0]
ASSUMED: Final = "2025-03-26"
PROJECTORS: Final = (_STRUCTURED, _ANNOTATED, _PLAIN)

_LEGACY_METHODS: Final = "POST, DELETE"
_NO_SSE: Final = (
    "This is MCP over Streamable HTTP: POST JSON-RPC messages here. GET opens a stream for a client that names its "
    "Mcp-Session-Id or MCP-Protocol-Version. The older HTTP+SSE transport is not served"
)
_NO_RESUMING: Final = "Streams of this MCP endpoint (Streamable HTTP) have no event ids and cannot be resumed"
_CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


@dataclass(frozen=True, slots=True)
class _Context:
    """A request of this era: who, in which session if any, at which revision."""

    inbound: Inbound
    session: Session | None
    revision: Revision


class Legacy:
    def __init__(self, operations: Operations, invocation: Invocation, sessions: Sessions) -> None:
        self._operations = operations
        self._invocation = invocation
        self._sessions = sessions
        self._running: dict[tuple[str, Id], asyncio.Task[bytes]] = {}
        self._prepared: dict[tuple[str, Id], asyncio.Event] = {}
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._handlers: dict[str, Callable[[_Context, Request, dict[str, Any]], Awaitable[Reply | StreamReply]]] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list,
            "tools/call": self._call,
        }

    def serves(self, inbound: Inbound) -> bool:
        """Tell whether the version header, if any, is of this era."""
        return inbound.headers.get(PROTOCOL_VERSION) in (None, *VERSIONS)

    async def answer(self, inbound: Inbound, message: Message) -> Reply | StreamReply:
        """Raises :class:`GatewayError`; :meth:`refusal` makes the reply of it."""
        starts = isinstance(message, Request) and message.method == "initialize"
        context = await self._context(inbound) if not starts else _Context(inbound, None, REVISIONS[ASSUMED])
        if not isinstance(message, Request):
            if isinstance(message, Notification):
                self._notified(context, message)
            return Reply(202, method=getattr(message, "method", "response"))
        handler = self._handlers.get(message.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {message.method[:128]}")
        return await handler(context, message, message.params if isinstance(message.params, dict) else {})

    async def answer_batch(
        self, inbound: Inbound, items: list[Any], one: Callable[[Inbound, Any], Awaitable[Reply | StreamReply]]
    ) -> Reply:
        """Each item on its own, through ``one``, in order. Raises :class:`BadMessage`."""
        if not (await self._context(inbound)).revision.batches:
            raise BadMessage("Invalid request: batches exist at 2025-03-26 alone")
        batch.check_length(items)
        if any(isinstance(item, dict) and item.get("method") == "initialize" for item in items):
            raise BadMessage("Invalid request: initialize must not be in a batch")
        room = Room(self._operations.max_response)

        async def answer_to(item: Any) -> bytes:
            reply = await one(replace(inbound, alone=False), item)
            if isinstance(reply, StreamReply) or not reply.body:
                return b""
            return reply.body if reply.error is not None else room.fit(item["id"], reply.body)

        answers = [answer for item in items if (answer := await answer_to(item))]
        if not answers:
            return Reply(202, method="batch")
        return Reply(200, b"[" + b",".join(answers) + b"]", method="batch")

    async def listen(self, inbound: Inbound) -> StreamReply:
        """``GET``: the stream of what the server has to say. Raises :class:`GatewayError`."""
        self._check_version(inbound)
        # Clients of HTTP+SSE (2024-11-05, basic/transports) name neither, and would wait on the stream for an event
        # that never comes; a 405 ends their attempt at once.
        if PROTOCOL_VERSION not in inbound.headers and SESSION not in inbound.headers:
            raise MethodNotAllowed(_NO_SSE, allow=_LEGACY_METHODS)
        if LAST_EVENT in inbound.headers:
            raise MethodNotAllowed(_NO_RESUMING, allow=_LEGACY_METHODS)
        if not inbound.takes_stream:
            raise NotAcceptable("Accept must admit text/event-stream")
        context = await self._context(inbound)
        self._operations.check_stream(inbound.caller)
        return StreamReply(self._notices(context), method="GET", notices=True)

    async def end(self, inbound: Inbound) -> Reply:
        """``DELETE``: the end of a session. Raises :class:`GatewayError`."""
        self._check_version(inbound)
        id = inbound.headers.get(SESSION)
        if id is None:
            raise InvalidRequest(f"{SESSION} must name the session to end")
        await self._sessions.close(id, inbound.caller)
        self._operations.changes.end(id)
        return Reply(204, method="DELETE")

    def refusal(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """HTTP status and body of an error."""
        refuses = error.refuses or isinstance(error, ParseError | InvalidRequest)
        return error.status if refuses else 200, jsonrpc.error_bytes(id, error)

    async def close(self) -> None:
        """End the calls whose clients are gone."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _check_version(self, inbound: Inbound) -> None:
        if not self.serves(inbound):
            raise MethodNotAllowed("This revision has POST alone", allow="POST")

    async def _context(self, inbound: Inbound) -> _Context:
        """Raises :class:`~gateway.errors.SessionNotFound`."""
        id = inbound.headers.get(SESSION)
        session = None if id is None else await self._sessions.read(id, inbound.caller)
        named = inbound.headers.get(PROTOCOL_VERSION) or (session.revision if session else ASSUMED)
        return _Context(inbound, session, REVISIONS[named])

    def _notified(self, context: _Context, message: Notification) -> None:
        """``notifications/cancelled`` stops the call it names, if it is of the same session and runs here."""
        if message.method != "notifications/cancelled" or context.session is None:
            return
        id = message.params.get("requestId") if isinstance(message.params, dict) else None
        if type(id) is str or type(id) is int:  # true is no id, although it equals 1
            key = (context.session.id, id)
            if key in self._prepared:
                self._prepared[key].set()
            elif key in self._running:
                self._running[key].cancel()

    async def _initialize(self, context: _Context, request: Request, params: dict[str, Any]) -> Reply:
        asked = params.get("protocolVersion")
        version = asked if isinstance(asked, str) and asked in REVISIONS else LATEST
        info = self._operations.server_info(context.inbound.caller)
        capabilities = {"tools": {"listChanged": True}}
        server = info.implementation(REVISIONS[version].introduces)
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}
        if info.instructions:
            result["instructions"] = info.instructions
        headers = {SESSION: self._sessions.open(version, context.inbound.caller)}
        return Reply(200, jsonrpc.result_bytes(request.id, jsonrpc.encode(result)), headers, request.method)

    async def _ping(self, _: _Context, request: Request, __: dict[str, Any]) -> Reply:
        return Reply(200, jsonrpc.result_bytes(request.id, b"{}"), method=request.method)

    async def _list(self, context: _Context, request: Request, params: dict[str, Any]) -> Reply:
        caller = context.inbound.caller
        projector = context.revision.projector.named(self._invocation.naming(caller))
        page = await self._operations.list_tools(caller, params.get("cursor"), projector)
        result = b'{"tools":%b}' % page.tools
        if page.cursor is not None:
            result = b'{"tools":%b,"nextCursor":%b}' % (page.tools, jsonrpc.encode(page.cursor))
        return Reply(200, jsonrpc.result_bytes(request.id, result), method=request.method)

    async def _call(self, context: _Context, request: Request, params: dict[str, Any]) -> Reply | StreamReply:
        name, arguments, token = asked_call(params)
        with self._cancellable(context, request) as cancelled:  # a first listing may take its time
            call = await self._invocation.prepare(context.inbound.caller, name, arguments)
        if cancelled.is_set():
            return Reply(202, method=request.method, tool=call.tool.name)
        if token is not None and context.inbound.takes_stream:

            def start() -> asyncio.Task[bytes]:
                return self._started(context, request, call, begun=True)

            naming = self._invocation.naming(call.caller)
            shown = call.tool.named(naming) if context.revision.explains_progress else ""
            beat = self._operations.heartbeat
            events = progress.with_progress(request, token, start, beat, cancels=False, tool=shown)
            return StreamReply(events, method=request.method, tool=call.tool.name)
        work = self._started(context, request, call)
        try:
            body = jsonrpc.result_bytes(request.id, await asyncio.shield(work))
        except asyncio.CancelledError:
            if not work.cancelled():
                raise  # the client hung up, and the call goes on
            return Reply(202, method=request.method, tool=call.tool.name)
        return Reply(200, body, method=request.method, tool=call.tool.name)

    @contextmanager
    def _cancellable(self, context: _Context, request: Request) -> Iterator[asyncio.Event]:
        """What is set where the client cancels a call that is not made yet."""
        cancelled = asyncio.Event()
        key = None if context.session is None else (context.session.id, request.id)
        if key is not None:
            self._prepared[key] = cancelled
        try:
            yield cancelled
        finally:
            if key is not None and self._prepared.get(key) is cancelled:
                del self._prepared[key]

    def _started(self, context: _Context, request: Request, call: Call, *, begun: bool = False) -> asyncio.Task[bytes]:
        """A call that outlives its client, held on to until it is over, so that it can be cancelled by name."""

        async def result() -> bytes:
            outcome = await call.execute(begun=begun)
            return b"{%b}" % outcome_members(outcome, context.revision.shape)

        work = asyncio.create_task(result())
        self._tasks.add(work)
        work.add_done_callback(self._over)
        if context.session is not None:
            key = (context.session.id, request.id)
            self._running[key] = work

            def over(_: object) -> None:
                if self._running.get(key) is work:  # a client may have used the id again, although it must not
                    del self._running[key]

            work.add_done_callback(over)
        return work

    def _over(self, work: asyncio.Task[bytes]) -> None:
        self._tasks.discard(work)
        if not work.cancelled():
            work.exception()  # a refusal whose client is gone has nobody to go to

    async def _notices(self, context: _Context) -> Events:
        """Changes as they come; of one session's streams the newest has them, since each is told once."""
        caller, session = context.inbound.caller, context.session
        with self._operations.streams.held(caller.counted_as):
            subscription = self._operations.changes.subscribe(caller.view, session.id if session else None)
            try:
                yield None
                while not Event.END & (event := await subscription.next()) and self._operations.goes_on(caller):
                    yield _CHANGED if Event.CHANGED in event else None
            finally:
                self._operations.changes.unsubscribe(subscription)
