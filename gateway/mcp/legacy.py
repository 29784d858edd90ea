"""2024-11-05 to 2025-11-25: ``initialize`` negotiates a revision, which later requests name in a header or a session.

A session is a signed id without state here (:mod:`sessions`); clients that send none are served too. A request that
names no revision is of 2025-03-26 (2025-11-25, basic/transports "Protocol Version Header"). JSON-RPC errors travel on
HTTP 200, since clients take a 404 for the end of a session. Hanging up does not cancel a call in this era; only
``notifications/cancelled`` does. Only 2025-03-26 has batches.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from gateway import jsonrpc
from gateway.concurrency.background import UseCounter
from gateway.errors import GatewayError, InvalidRequest, MethodNotAllowed, MethodNotFound, NotAcceptable, ParseError
from gateway.invocation.invocation import Call
from gateway.jsonrpc import BadMessage, ClientResponse, Id, Message, Notification, Request
from gateway.mcp.content import (
    BLOCKS_2024_11,
    BLOCKS_2025_03,
    BLOCKS_2025_06,
    ToolProjector,
    call_meta,
    call_result,
    fit_result,
)
from gateway.mcp.elicitation import Elicitor, declared_modes, execute_and_ask
from gateway.mcp.envelope import parse_call_params
from gateway.mcp.messages import (
    LAST_EVENT,
    PROTOCOL_VERSION,
    SESSION,
    McpReply,
    McpRequest,
    McpStreamReply,
)
from gateway.mcp.operations import CAPABILITIES, META_MISSING, PLAIN, TITLED, WHOLE, Operations
from gateway.mcp.running import CallNotices, stream_progress
from gateway.mcp.sessions import Session, Sessions
from gateway.model import CallExtras, JsonObject
from gateway.telemetry.record import CANCELLED, RECORD, client_name


@dataclass(frozen=True, slots=True)
class LegacyRevision:
    """How a revision writes tools, results and the server's description. ``introduces`` are the members of an
    ``Implementation``; ``explains_progress`` says whether progress notifications have a ``message``; ``elicits`` are
    the modes in which a server can ask the user for input."""

    version: str
    projector: ToolProjector
    blocks: frozenset[str]
    introduces: tuple[str, ...]
    batches: bool = False
    explains_progress: bool = True
    elicits: tuple[str, ...] = ()


_STRUCTURED: Final = ToolProjector(objects_only=True)
_ANNOTATED: Final = ToolProjector(titles=False, outputs=False)
_PLAIN: Final = ToolProjector(annotations=False, titles=False, outputs=False)

REVISIONS: Final = {
    revision.version: revision
    for revision in (
        LegacyRevision("2025-11-25", _STRUCTURED, BLOCKS_2025_06, WHOLE, elicits=("form", "url")),
        LegacyRevision("2025-06-18", _STRUCTURED, BLOCKS_2025_06, TITLED, elicits=("form",)),
        LegacyRevision("2025-03-26", _ANNOTATED, BLOCKS_2025_03, PLAIN, batches=True),
        LegacyRevision("2024-11-05", _PLAIN, BLOCKS_2024_11, PLAIN, explains_progress=False),
    )
}
VERSIONS: Final = tuple(REVISIONS)
LATEST: Final = VERSIONS[0]
ASSUMED: Final = "2025-03-26"  # of a request that names no revision
_NO_SESSION: Final = Session(ASSUMED)
PROJECTORS: Final = tuple(dict.fromkeys(revision.projector for revision in REVISIONS.values()))

_OTHER_METHODS: Final = "POST, DELETE"
_NO_SSE: Final = (
    "This is MCP over Streamable HTTP: POST JSON-RPC messages here. GET opens a stream for a client that names its "
    "Mcp-Session-Id or MCP-Protocol-Version. The older HTTP+SSE transport is not served"
)
_NO_RESUMPTION: Final = "Streams of this MCP endpoint (Streamable HTTP) have no event ids and cannot be resumed"
_CHANGED: Final = jsonrpc.request_bytes(None, "notifications/tools/list_changed", None)


class _RequestContext(Struct):
    """A request of this era with its revision and its session's id, None without one. ``elicits`` are the modes in
    which its client can ask the user for input."""

    mcp_request: McpRequest
    session: str | None
    revision: LegacyRevision
    elicits: tuple[str, ...] = ()


class Legacy:
    """Answer messages of this era. ``calls`` are those of the mount, which outlive this object.
    ``uses`` counts calls, also those whose client has hung up, so that a reload waits for them."""

    def __init__(self, operations: Operations, sessions: Sessions, calls: CallNotices, uses: UseCounter) -> None:
        self._operations = operations
        self.max_response = operations.max_response
        self._invocation = operations.invocation
        self._sessions = sessions
        self._calls = calls
        self.running = calls.running
        self._uses = uses
        self._handlers: dict[
            str, Callable[[_RequestContext, Request, dict[str, Any]], Awaitable[McpReply | McpStreamReply]]
        ] = {"initialize": self._initialize, "ping": self._ping, "tools/list": self._list, "tools/call": self._call}

    def serves_version(self, mcp_request: McpRequest) -> bool:
        """Return whether the version header, if any, is of this era."""
        return mcp_request.headers.get(PROTOCOL_VERSION, ASSUMED) in REVISIONS

    async def answer_message(self, mcp_request: McpRequest, message: Message) -> McpReply | McpStreamReply:
        """Answer one message. Raise :class:`GatewayError`, which :meth:`error_reply` turns into a reply."""
        if isinstance(message, Request) and message.method == "initialize":  # whatever session its headers name
            context = _RequestContext(mcp_request, None, REVISIONS[ASSUMED])
        else:
            context = await self._context(mcp_request)
        if not isinstance(message, Request):  # 202 without a body, also for a response that nobody waits for
            if isinstance(message, Notification):
                await self._handle_notification(context, message)
            elif isinstance(message, ClientResponse) and context.session is not None:
                await self._calls.answer(context.session, message)
            return McpReply(202)
        handler = self._handlers.get(message.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {message.method[:128]}")
        return await handler(context, message, message.params if isinstance(message.params, dict) else {})

    async def check_batch(self, mcp_request: McpRequest, items: list[Any]) -> None:
        """Raise :class:`BadMessage` where the revision has no batches, or one must not have these messages."""
        if not (await self._context(mcp_request)).revision.batches:
            raise BadMessage("Invalid request: only revision 2025-03-26 has batches")
        if any(isinstance(item, dict) and item.get("method") == "initialize" for item in items):
            raise BadMessage("Invalid request: initialize must not be in a batch")

    async def open_stream(self, mcp_request: McpRequest) -> McpStreamReply:
        """Answer ``GET`` with a stream of the server's notifications. Raise :class:`GatewayError`."""
        self._check_version(mcp_request)
        # Clients of HTTP+SSE (2024-11-05, basic/transports) name neither, and would wait on the stream for an event
        # that never comes; a 405 ends their attempt at once.
        if PROTOCOL_VERSION not in mcp_request.headers and SESSION not in mcp_request.headers:
            raise MethodNotAllowed(_NO_SSE, allow=_OTHER_METHODS)
        if LAST_EVENT in mcp_request.headers:
            raise MethodNotAllowed(_NO_RESUMPTION, allow=_OTHER_METHODS)
        if not mcp_request.accepts_stream:
            raise NotAcceptable("Accept must admit text/event-stream")
        context = await self._context(mcp_request)
        # A keep-alive is first: HTTP libraries hold the headers back until the first bytes.
        events = self._operations.open_stream(mcp_request.caller, None, _CHANGED, session=context.session)
        return McpStreamReply(events, notices=True)

    async def end_session(self, mcp_request: McpRequest) -> McpReply:
        """Answer ``DELETE``: end the session. Raise :class:`GatewayError`."""
        self._check_version(mcp_request)
        id = mcp_request.headers.get(SESSION)
        if id is None:
            raise InvalidRequest(f"{SESSION} must name the session to end")
        await self._sessions.end_session(id, mcp_request.caller)
        return McpReply(204)

    def error_reply(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """Return HTTP status and body of an error."""
        refuses = error.refuses or isinstance(error, ParseError | InvalidRequest)
        return error.status if refuses else 200, jsonrpc.error_bytes(id, error)

    def _check_version(self, mcp_request: McpRequest) -> None:
        if not self.serves_version(mcp_request):
            raise MethodNotAllowed("This revision has only POST", allow="POST")

    async def _context(self, mcp_request: McpRequest) -> _RequestContext:
        """Return the request with its session and revision. Raise :class:`~gateway.errors.SessionNotFound`."""
        id = mcp_request.headers.get(SESSION)
        session = _NO_SESSION if id is None else await self._sessions.read_session(id, mcp_request.caller)
        named = mcp_request.headers.get(PROTOCOL_VERSION) or session.revision
        record = RECORD.get()
        record.revision, record.client = named, session.client
        return _RequestContext(mcp_request, id, REVISIONS[named], session.elicits)

    async def _handle_notification(self, context: _RequestContext, message: Notification) -> None:
        """Cancel the call that ``notifications/cancelled`` names, if it is of the same session."""
        if message.method != "notifications/cancelled" or context.session is None:
            return
        id = message.params.get("requestId") if isinstance(message.params, dict) else None
        if type(id) is str or type(id) is int:  # True equals 1 but is not an id
            await self._calls.cancel(context.session, id)

    async def _initialize(self, context: _RequestContext, request: Request, params: dict[str, Any]) -> McpReply:
        requested = params.get("protocolVersion")
        version = requested if isinstance(requested, str) and requested in REVISIONS else LATEST
        info = self._operations.server_info(context.mcp_request.caller)
        server = info.implementation(REVISIONS[version].introduces)
        result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": server}
        if info.instructions:
            result["instructions"] = info.instructions
        elicits = declared_modes(params.get("capabilities"), REVISIONS[version].elicits)
        record = RECORD.get()
        record.revision, record.client = version, client_name(params.get("clientInfo"))
        headers = {SESSION: self._sessions.open_session(version, context.mcp_request.caller, elicits, record.client)}
        return McpReply(200, jsonrpc.response_bytes(request.id, result), headers)

    async def _ping(self, _: _RequestContext, request: Request, __: dict[str, Any]) -> McpReply:
        return McpReply(200, jsonrpc.response_bytes(request.id, {}))

    async def _list(self, context: _RequestContext, request: Request, params: dict[str, Any]) -> McpReply:
        caller = context.mcp_request.caller
        projector = context.revision.projector.with_name_style(caller.name_style or self._invocation.name_style)
        page = await self._operations.list_tools(caller, params.get("cursor"), projector)
        meta = b',"_meta":%b}' % jsonrpc.encode({META_MISSING: page.missing}) if page.missing else b"}"
        return McpReply(200, jsonrpc.joined_response(request.id, b'{"tools":', page.tools, page.next_cursor, meta))

    async def _call(
        self, context: _RequestContext, request: Request, params: dict[str, Any]
    ) -> McpReply | McpStreamReply:
        name, arguments, token = parse_call_params(params)
        session = context.session
        if session is None:  # nobody can cancel it
            call = await self._prepare(context, name, arguments)
        else:
            with self.running.preparing(session, request.id) as cancelled:  # the first listing may be slow
                call = await self._prepare(context, name, arguments)
            if cancelled.is_set():  # a cancelled request gets no response
                RECORD.get().note_outcome(CANCELLED)
                return McpReply(202)
        elicitor = self._elicitor(context, call)
        wants_stream = (elicitor is not None or token is not None) and context.mcp_request.accepts_stream
        if wants_stream and self._operations.may_stream(call):
            return self._stream(context, request, call, token, elicitor)
        if elicitor is not None:
            elicitor.close()
        end = asyncio.get_running_loop().create_future()
        result = self._result(call, context.revision, elicitor=elicitor)
        work = self.running.start(result, session, request.id, end)
        await end  # where the client hangs up, the call continues
        if work.cancelled():
            return McpReply(202)
        return McpReply(200, jsonrpc.response_bytes(request.id, work.result()), call.headers)

    def _prepare(self, context: _RequestContext, name: str, arguments: JsonObject) -> Awaitable[Call]:
        """Prepare a call as one that can ask the user, if the client can. A tool that needs more than that of a client
        gets a call that cannot, whose fault says so."""
        extras, mcp_request = None, context.mcp_request
        if context.elicits and mcp_request.accepts_stream and self._operations.streams.has_room(mcp_request.caller):
            extras = CallExtras(capabilities={"elicitation": {mode: {} for mode in context.elicits}}, optional=True)
        return self._invocation.prepare(mcp_request.caller, name, arguments, extras)

    def _elicitor(self, context: _RequestContext, call: Call) -> Elicitor | None:
        if call.extras is None or context.session is None or not (call.tool.confirm or call.tool.input_required):
            return None
        return Elicitor(self._calls.elicitations, context.session)

    def _stream(
        self, context: _RequestContext, request: Request, call: Call, token: str | int | None, elicitor: Elicitor | None
    ) -> McpStreamReply:
        revision = context.revision

        def start() -> asyncio.Task[dict[str, Any]]:
            work = self._result(call, revision, answer_started=True, elicitor=elicitor)
            return self.running.start(work, context.session, request.id)

        name_style = call.caller.name_style or self._invocation.name_style
        shown = call.tool.name_for(name_style) if revision.explains_progress else ""
        held, beat = self._operations.streams.hold_stream(call.caller), self._operations.heartbeat
        events = stream_progress(request, token, start, beat, held, cancels=False, tool=shown, elicitor=elicitor)
        return McpStreamReply(events, call.headers)

    async def _result(
        self, call: Call, revision: LegacyRevision, *, answer_started: bool = False, elicitor: Elicitor | None = None
    ) -> dict[str, Any]:
        with self._uses:
            if elicitor is None:
                outcome = await call.execute(answer_started=answer_started)
            else:
                outcome = await execute_and_ask(self._invocation, call, elicitor)
        if outcome.tool.fit is not None:
            outcome = await fit_result(outcome, outcome.tool.fit)
        result = call_result(outcome, revision.projector, revision.blocks)
        if meta := call_meta(outcome):
            result["_meta"] = meta
        return result
