"""2026-07-28: stateless. Each request names its version, its capabilities and, in headers, itself.

A request passes these checks in this order. Official clients and the conformance suite expect it: a header mismatch is
reported before an unsupported version.

1. one JSON-RPC request or notification                                    400 -32600
2. no standard header is given twice                                       400 -32020
3. ``_meta`` with protocolVersion and clientCapabilities                   400 -32602
4. MCP-Protocol-Version, Mcp-Method and Mcp-Name agree with the body       400 -32020   (SEP-2243)
5. the version is served                                                   400 -32022
6. the method is known                                                     404 -32601
7. any other error is in the JSON-RPC response                             200

Notifications have no header rules; they are accepted and ignored.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gateway import jsonrpc
from gateway.errors import GatewayError, InternalError, InvalidParams, MethodNotFound, NotAcceptable, UnsupportedVersion
from gateway.invocation.invocation import Call
from gateway.jsonrpc import BadMessage, Id, Message, Notification, Raw, Request
from gateway.mcp.content import BLOCKS_2025_06, ToolProjector, call_meta, call_result, fit_result
from gateway.mcp.envelope import (
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    check_envelope,
    check_header_parameters,
    parse_call_params,
    parse_extras,
)
from gateway.mcp.messages import PROTOCOL_VERSION, McpReply, McpRequest, McpStreamReply
from gateway.mcp.operations import CAPABILITIES, META_MISSING, TITLED, WHOLE, Operations, ServerInfo
from gateway.mcp.running import stream_progress
from gateway.model import Caller, Catalog, JsonObject, NameStyle, Outcome, Tool
from gateway.telemetry.record import RECORD


@dataclass(frozen=True, slots=True)
class ModernRevision:
    """How a revision of this era writes tools, results and the server's description.

    ``introduces`` are the members of an ``Implementation`` in the answer to ``server/discover``, ``identifies`` those
    in every other result. ``discover_ttl`` is how many milliseconds a client may cache the former.
    """

    version: str
    projector: ToolProjector
    blocks: frozenset[str]
    introduces: tuple[str, ...]
    identifies: tuple[str, ...]
    discover_ttl: int = 300_000


REVISIONS: Final = {
    revision.version: revision
    for revision in (  # the newest first
        ModernRevision("2026-07-28", ToolProjector(), BLOCKS_2025_06, WHOLE, TITLED),
    )
}
VERSIONS: Final = tuple(REVISIONS)
PROJECTORS: Final = tuple(dict.fromkeys(revision.projector for revision in REVISIONS.values()))
PROJECTOR: Final = PROJECTORS[0]
"""The newest revision's projector."""
_PROJECTORS: Final = {
    (revision.version, style): revision.projector.with_name_style(style)
    for revision in REVISIONS.values()
    for style in NameStyle
}

_LISTED: Final = b'{"resultType":"complete","tools":'
# How a list goes on behind its tools and its cursor: for how many milliseconds and by whom it may be cached.
_CACHED_BY_ALL: Final = b',"ttlMs":%d,"cacheScope":"public","_meta":'
_CACHED_BY_ONE: Final = b',"ttlMs":%d,"cacheScope":"private","_meta":'
_Handler: TypeAlias = Callable[[McpRequest, ModernRevision, Request, JsonObject], Awaitable[McpReply | McpStreamReply]]


def names_version(params: Any) -> bool:
    """Return whether the ``_meta`` of params names a version, as only this era has it."""
    return type(params) is dict and type(meta := params.get("_meta")) is dict and META_VERSION in meta


class Modern:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._invocation = operations.invocation
        self._meta_cache: tuple[Catalog | None, dict[str, Raw]] = (None, {})
        self._handlers: dict[str, _Handler] = {
            "server/discover": self._discover,
            "tools/list": self._list,
            "tools/call": self._call,
            "subscriptions/listen": self._listen,
        }

    def answer_message(self, mcp_request: McpRequest, message: Message) -> Awaitable[McpReply | McpStreamReply]:
        """Answer one message. Raise :class:`GatewayError`, which :meth:`error_reply` turns into a reply."""
        if type(message) is not Request:
            return self._answer_other(mcp_request, message)
        params = message.params if type(message.params) is dict else {}
        version = check_envelope(mcp_request, message.method, params)
        revision = REVISIONS.get(version)
        if revision is None:
            raise _unsupported(version)
        RECORD.get().revision = version
        handler = self._handlers.get(message.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {message.method[:128]}")
        return handler(mcp_request, revision, message, params)

    async def _answer_other(self, mcp_request: McpRequest, message: Message) -> McpReply:
        """Accept a notification. Raise :class:`BadMessage` for a response."""
        if not isinstance(message, Notification):
            raise BadMessage("Invalid request: responses are not accepted, since the gateway sends no requests")
        version = mcp_request.headers.get(PROTOCOL_VERSION)
        if version is not None and version not in REVISIONS:
            raise _unsupported(version)
        return McpReply(202)

    def error_reply(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """Return HTTP status and body of an error."""
        in_response = isinstance(error, InvalidParams | InternalError)  # row 7 of the list above
        return 200 if in_response else error.status, jsonrpc.error_bytes(id, error)

    async def _discover(
        self, mcp_request: McpRequest, revision: ModernRevision, request: Request, _: JsonObject
    ) -> McpReply:
        # This must not wait for the backend: on any error, clients take the server for one of the older era.
        info = self._operations.server_info(mcp_request.caller)
        result: dict[str, Any] = {"supportedVersions": VERSIONS, "capabilities": CAPABILITIES}
        if info.instructions:
            result["instructions"] = info.instructions
        result["ttlMs"] = 0 if info.missing else revision.discover_ttl
        result["cacheScope"] = "public" if mcp_request.caller.view.is_shared else "private"
        result = _result_of("complete", result, _meta(info, revision.introduces))
        return McpReply(200, jsonrpc.response_bytes(request.id, result))

    async def _list(
        self, mcp_request: McpRequest, revision: ModernRevision, request: Request, params: JsonObject
    ) -> McpReply:
        projector = _PROJECTORS[revision.version, mcp_request.caller.name_style or self._invocation.name_style]
        page = await self._operations.list_tools(mcp_request.caller, params.get("cursor"), projector)
        cached = (_CACHED_BY_ALL if page.is_shared else _CACHED_BY_ONE) % page.ttl_ms
        meta = self._identity(mcp_request.caller, revision)
        parts = _LISTED, page.tools, page.next_cursor, cached, meta, b"}"
        return McpReply(200, jsonrpc.joined_response(request.id, *parts))

    async def _call(
        self, mcp_request: McpRequest, revision: ModernRevision, request: Request, params: JsonObject
    ) -> McpReply | McpStreamReply:
        name, arguments, token = parse_call_params(params)

        def check_arguments(tool: Tool) -> dict[str, Any]:
            if tool.headers and mcp_request.repeats_body:
                check_header_parameters(mcp_request.headers, tool, arguments)
            return arguments

        call = await self._invocation.prepare(mcp_request.caller, name, check_arguments, parse_extras(params))
        if token is None or not mcp_request.accepts_stream or not self._operations.may_stream(call):
            outcome = await call.execute()
            if outcome.tool.fit is not None:
                outcome = await fit_result(outcome, outcome.tool.fit)
            result = self._result(outcome, call.caller, revision)
            return McpReply(200, jsonrpc.response_bytes(request.id, result), call.headers)
        return self._stream(call, revision, request, token)

    def _stream(self, call: Call, revision: ModernRevision, request: Request, token: str | int) -> McpStreamReply:
        async def answer() -> dict[str, Any]:
            outcome = await call.execute(answer_started=True)
            if outcome.tool.fit is not None:
                outcome = await fit_result(outcome, outcome.tool.fit)
            return self._result(outcome, call.caller, revision)

        def start() -> asyncio.Task[dict[str, Any]]:
            return asyncio.create_task(answer())

        # Closing the stream cancels the call (2026-07-28, basic/patterns/cancellation).
        shown = call.tool.name_for(call.caller.name_style or self._invocation.name_style)
        held, beat = self._operations.streams.hold_stream(call.caller), self._operations.heartbeat
        events = stream_progress(request, token, start, beat, held, cancels=True, tool=shown)
        return McpStreamReply(events, call.headers)

    def _result(self, outcome: Outcome, caller: Caller, revision: ModernRevision) -> dict[str, Any]:
        meta: Raw | JsonObject = self._identity(caller, revision)
        if told := call_meta(outcome):
            meta = {**_identity_of(self._operations.server_info(caller), revision.identifies), **told}
        if outcome.input_request is None:
            result = call_result(outcome, revision.projector, revision.blocks)
            return {"resultType": "complete", **result, "_meta": meta}
        asked = outcome.input_request
        members = {"inputRequests": asked.requests or None, "requestState": asked.state}
        return _result_of("input_required", {name: it for name, it in members.items() if it is not None}, meta)

    async def _listen(
        self, mcp_request: McpRequest, _: ModernRevision, request: Request, params: JsonObject
    ) -> McpStreamReply:
        if not mcp_request.accepts_stream:
            raise NotAcceptable("Accept must admit text/event-stream")
        wanted = params.get("notifications")
        if not isinstance(wanted, dict):
            raise InvalidParams('"notifications" must be an object that names the wanted ones')
        tools = wanted.get("toolsListChanged") is True
        meta = {META_SUBSCRIPTION: request.id}
        acknowledged = {"_meta": meta, "notifications": {"toolsListChanged": True} if tools else {}}
        events = self._operations.open_stream(
            mcp_request.caller,
            jsonrpc.request_bytes(None, "notifications/subscriptions/acknowledged", acknowledged),
            jsonrpc.request_bytes(None, "notifications/tools/list_changed", {"_meta": meta}) if tools else None,
            last=jsonrpc.response_bytes(request.id, _result_of("complete", {}, meta)),
        )
        return McpStreamReply(events, notices=True)

    def _identity(self, caller: Caller, revision: ModernRevision) -> Raw:
        """Return the ``_meta`` of results, except that of ``server/discover``, which has more members."""
        catalog = self._invocation.discovery.current(caller.view)
        known, metas = self._meta_cache
        if catalog is None or known is not catalog:  # most callers share one catalog
            info = self._operations.server_info(caller)
            metas = {row.version: _meta(info, row.identifies) for row in REVISIONS.values()}
            self._meta_cache = catalog, metas
        return metas[revision.version]


def _unsupported(version: str) -> UnsupportedVersion:
    return UnsupportedVersion("Unsupported protocol version", data={"supported": list(VERSIONS), "requested": version})


def _meta(info: ServerInfo, known: tuple[str, ...]) -> Raw:
    return Raw(jsonrpc.encode(_identity_of(info, known)))


def _identity_of(info: ServerInfo, known: tuple[str, ...]) -> JsonObject:
    missing = {META_MISSING: info.missing} if info.missing else {}
    return {META_SERVER: info.implementation(known), **missing}


def _result_of(type: str, members: JsonObject, meta: Raw | JsonObject) -> dict[str, Any]:
    """Return a result with the members that each has in this era (schema.ts ``Result``): its type and ``_meta``."""
    return {"resultType": type, **members, "_meta": meta}
