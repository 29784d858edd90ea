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

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gateway import jsonrpc
from gateway.discovery.subscriptions import StreamEvent, Subscriptions
from gateway.errors import (
    GatewayError,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    MethodNotFound,
    NotAcceptable,
    UnsupportedVersion,
)
from gateway.invocation.invocation import Call, Invocation
from gateway.jsonrpc import BadMessage, Id, Message, Notification, Raw, Request
from gateway.limits import StreamLimit
from gateway.mcp import progress
from gateway.mcp.content import BLOCKS_2025_06, ResultShape, call_meta, call_result
from gateway.mcp.envelope import (
    META_CLIENT,
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    check_header,
    check_header_parameters,
    envelope_version,
    parse_extras,
)
from gateway.mcp.messages import (
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    Events,
    Headers,
    McpReply,
    McpRequest,
    McpStreamReply,
)
from gateway.mcp.operations import Operations, parse_call_params
from gateway.mcp.projection import ToolProjector
from gateway.mcp.server_info import CAPABILITIES, TITLED, WHOLE, ServerInfo
from gateway.model import Caller, Catalog, InputRequest, JsonObject, NameStyle, Tool
from gateway.telemetry.request_log import RECORD


@dataclass(frozen=True, slots=True)
class ModernRevision:
    """How a revision of this era writes tools, results and the server's description.

    ``introduces`` are the members of an ``Implementation`` in the answer to ``server/discover``, ``identifies`` those
    in every other result. ``discover_ttl`` is how many milliseconds a client may cache the former.
    """

    version: str
    projector: ToolProjector
    shape: ResultShape
    introduces: tuple[str, ...]
    identifies: tuple[str, ...]
    discover_ttl: int = 300_000


REVISIONS: Final = {  # the newest first
    revision.version: revision
    for revision in (
        ModernRevision("2026-07-28", ToolProjector(), ResultShape(True, False, BLOCKS_2025_06), WHOLE, TITLED),
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

_STANDARD_HEADERS: Final = (PROTOCOL_VERSION, METHOD, NAME)
_NONE: Final[list[str]] = []
_Handler: TypeAlias = Callable[[McpRequest, ModernRevision, Request, JsonObject], Awaitable[McpReply | McpStreamReply]]


class Modern:
    def __init__(self, operations: Operations, invocation: Invocation) -> None:
        self._operations = operations
        self._invocation = invocation
        self._meta_cache: tuple[Catalog | None, dict[str, Raw]] = (None, {})
        self._handlers: dict[str, _Handler] = {
            "server/discover": self._discover,
            "tools/list": self._list,
            "tools/call": self._call,
            "subscriptions/listen": self._listen,
        }

    def claims_message(self, message: Message, headers: Headers, legacy: tuple[str, ...]) -> bool:
        """Tell whether a message is of this era: its ``_meta`` names a version, or its header names one that is not in
        ``legacy``."""
        params = getattr(message, "params", None)
        if isinstance(params, dict) and isinstance(params.get("_meta"), dict) and META_VERSION in params["_meta"]:
            return True
        return PROTOCOL_VERSION in headers and headers.get(PROTOCOL_VERSION) not in legacy

    async def answer_message(self, mcp_request: McpRequest, message: Message) -> McpReply | McpStreamReply:
        """Answer one message. Raise :class:`GatewayError`, which :meth:`error_reply` turns into a reply."""
        if isinstance(message, Notification):
            version = mcp_request.headers.get(PROTOCOL_VERSION)
            if version is not None:
                _revision(version)
            return McpReply(202)
        if not isinstance(message, Request):
            raise BadMessage("Invalid request: responses are not accepted, since the gateway sends no requests")
        handler, revision, params = self._check_request(mcp_request, message)
        return await handler(mcp_request, revision, message, params)

    def error_reply(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """Return HTTP status and body of an error."""
        in_response = isinstance(error, InvalidParams | InternalError)  # row 7 of the list above
        return 200 if in_response else error.status, jsonrpc.error_bytes(id, error)

    def _check_request(self, mcp_request: McpRequest, request: Request) -> tuple[_Handler, ModernRevision, JsonObject]:
        """Make checks 2 to 6 of the list above. Return the request's handler, revision and params."""
        headers, params = mcp_request.headers, request.params if isinstance(request.params, dict) else {}
        for name in _STANDARD_HEADERS:
            if len(headers.getall(name, _NONE)) > 1:
                raise HeaderMismatch(f"{name} is given twice")
        version = envelope_version(params.get("_meta"))
        if isinstance(client := params["_meta"].get(META_CLIENT), dict):
            RECORD.get().client = client.get("name")
        if mcp_request.repeats_body:
            check_header(headers, PROTOCOL_VERSION, version)
            check_header(headers, METHOD, request.method)
            if request.method == "tools/call" and isinstance(params.get("name"), str):  # only this method has Mcp-Name
                check_header(headers, NAME, params["name"], encoded=True)
        revision = _revision(version)
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {request.method[:128]}")
        return handler, revision, params

    async def _discover(
        self, mcp_request: McpRequest, revision: ModernRevision, request: Request, _: JsonObject
    ) -> McpReply:
        # This must not wait for the backend: on any error, clients take the server for one of the older era.
        info = self._operations.server_info(mcp_request.caller)
        result: dict[str, Any] = {"supportedVersions": VERSIONS, "capabilities": CAPABILITIES}
        if info.instructions:
            result["instructions"] = info.instructions
        result |= _cacheable(revision.discover_ttl, shared=mcp_request.caller.view.is_shared)
        return _reply(request, _result_of("complete", result, _meta(info, revision.introduces)))

    async def _list(
        self, mcp_request: McpRequest, revision: ModernRevision, request: Request, params: JsonObject
    ) -> McpReply:
        projector = _PROJECTORS[revision.version, mcp_request.caller.name_style or self._invocation.name_style]
        page = await self._operations.list_tools(mcp_request.caller, params.get("cursor"), projector)
        result: dict[str, Any] = {"tools": page.tools}
        if page.cursor is not None:
            result["nextCursor"] = page.cursor
        result |= _cacheable(page.ttl_ms, shared=page.is_shared)
        return _reply(request, _result_of("complete", result, self._identity(mcp_request.caller, revision)))

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
            return _reply(request, await self._result(call, revision), call.headers)

        def start() -> asyncio.Task[dict[str, Any]]:
            return asyncio.create_task(self._result(call, revision, answer_started=True))

        # Closing the stream cancels the call (2026-07-28, basic/patterns/cancellation).
        shown = call.tool.name_for(call.caller.name_style or self._invocation.name_style)
        held, beat = self._operations.streams.hold_stream(call.caller), self._operations.heartbeat
        events = progress.stream_progress(request, token, start, beat, held, cancels=True, tool=shown)
        return McpStreamReply(events, call.headers)

    async def _result(self, call: Call, revision: ModernRevision, *, answer_started: bool = False) -> dict[str, Any]:
        outcome = await call.execute(answer_started=answer_started)
        meta: Raw | JsonObject = self._identity(call.caller, revision)
        if said := call_meta(outcome):
            meta = {**_identity_of(self._operations.server_info(call.caller), revision.identifies), **said}
        if outcome.input_request is None:
            return _result_of("complete", call_result(outcome, revision.shape), meta)
        return _result_of("input_required", _input_required(outcome.input_request), meta)

    async def _listen(
        self, mcp_request: McpRequest, _: ModernRevision, request: Request, params: JsonObject
    ) -> McpStreamReply:
        if not mcp_request.accepts_stream:
            raise NotAcceptable("Accept must admit text/event-stream")
        wanted = params.get("notifications")
        if not isinstance(wanted, dict):
            raise InvalidParams('"notifications" must be an object that names the wanted ones')
        operations, caller = self._operations, mcp_request.caller
        operations.check_stream(caller)
        tools = wanted.get("toolsListChanged") is True
        subscriptions, epoch = operations.subscriptions, operations.epoch
        events = _notices(subscriptions, epoch, operations.streams, caller, request.id, tools=tools)
        return McpStreamReply(events, notices=True)

    def _identity(self, caller: Caller, revision: ModernRevision) -> Raw:
        """Return the ``_meta`` of results, except that of ``server/discover``, which has more members."""
        catalog = self._operations.discovery.current(caller.view)
        if catalog is None or self._meta_cache[0] is not catalog:  # most callers share one catalog
            info = self._operations.server_info(caller)
            self._meta_cache = catalog, {row.version: _meta(info, row.identifies) for row in REVISIONS.values()}
        return self._meta_cache[1][revision.version]


async def _notices(
    subscriptions: Subscriptions, epoch: int, streams: StreamLimit, caller: Caller, id: Id, *, tools: bool
) -> Events:
    """Yield the acknowledgement, notifications and keep-alives, and the result when the gateway ends the stream.

    A stream stays open for hours: it must not hold a service that a reload swapped.
    """
    meta = {META_SUBSCRIPTION: id}
    accepted = {"toolsListChanged": True} if tools else {}
    with streams.hold_stream(caller):
        subscription = subscriptions.subscribe(caller.view, epoch=epoch)
        try:
            acknowledged = {"_meta": meta, "notifications": accepted}
            yield jsonrpc.request_bytes(None, "notifications/subscriptions/acknowledged", acknowledged)
            changed = jsonrpc.request_bytes(None, "notifications/tools/list_changed", {"_meta": meta})
            while not StreamEvent.END & (event := await subscription.next_event()):
                if not caller.token_still_valid(time.time()):
                    break
                subscriptions.refresh(caller)
                if StreamEvent.CHANGED in event and tools:
                    yield changed
                elif StreamEvent.TICK in event:
                    yield None
            yield jsonrpc.response_bytes(id, _result_of("complete", {}, meta))
        finally:
            subscriptions.unsubscribe(subscription)


def _revision(version: str) -> ModernRevision:
    """Return the revision of that name. Raise :class:`UnsupportedVersion`."""
    revision = REVISIONS.get(version)
    if revision is None:
        data = {"supported": list(VERSIONS), "requested": version}
        raise UnsupportedVersion("Unsupported protocol version", data=data)
    return revision


def _meta(info: ServerInfo, known: tuple[str, ...]) -> Raw:
    return Raw(jsonrpc.encode(_identity_of(info, known)))


def _identity_of(info: ServerInfo, known: tuple[str, ...]) -> JsonObject:
    return {META_SERVER: info.implementation(known)}


def _cacheable(ttl: int, *, shared: bool) -> dict[str, Any]:
    """Return the members that tell for how many milliseconds and for whom a result may be cached."""
    return {"ttlMs": ttl, "cacheScope": "public" if shared else "private"}


def _input_required(input_request: InputRequest) -> JsonObject:
    members = {"inputRequests": input_request.requests or None, "requestState": input_request.state}
    return {name: value for name, value in members.items() if value is not None}


def _result_of(type: str, members: JsonObject, meta: Raw | JsonObject) -> dict[str, Any]:
    """Return a result with the members that each has in this era (schema.ts ``Result``): its type and ``_meta``."""
    return {"resultType": type, **members, "_meta": meta}


def _reply(request: Request, result: JsonObject, headers: Mapping[str, str] | None = None) -> McpReply:
    return McpReply(200, jsonrpc.response_bytes(request.id, result), headers or {})
