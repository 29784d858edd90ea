"""2026-07-28: stateless. Each request names its version, its capabilities and, in headers, itself.

The ladder, in the order that official clients and the conformance suite expect (a mismatch wins over an unsupported
version):

1. one JSON-RPC request or notification                                    400 -32600
2. no standard header twice                                                400 -32020
3. ``_meta`` with protocolVersion and clientCapabilities                   400 -32602
4. MCP-Protocol-Version, Mcp-Method and Mcp-Name agree with the body       400 -32020   (SEP-2243)
5. the version is served                                                   400 -32022
6. the method is known                                                     404 -32601
7. what is wrong from here on is in-band                                   200

Notifications have no header rules, are accepted and mean nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.changes import Event
from gateway.errors import (
    GatewayError,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    MethodNotFound,
    NotAcceptable,
    UnsupportedVersion,
)
from gateway.invocation import Call, Invocation
from gateway.jsonrpc import BadMessage, Id, Message, Notification, Request
from gateway.mcp import progress
from gateway.mcp.content import BLOCKS_2025_06, ResultShape, outcome_members
from gateway.mcp.envelope import (
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    agree,
    check_parameters,
    envelope_version,
    extras_of,
)
from gateway.mcp.exchange import METHOD, NAME, PROTOCOL_VERSION, Events, Headers, Inbound, Reply, StreamReply
from gateway.mcp.operations import Operations, asked_call
from gateway.mcp.projection import ToolProjector
from gateway.mcp.server_info import TITLED, WHOLE, ServerInfo
from gateway.model import Caller, Outcome, ServiceInfo, Tool

VERSIONS: Final = ("2026-07-28",)
DISCOVER_TTL_MS: Final = 300_000
PROJECTOR: Final = ToolProjector("2026-07-28")
SHAPE: Final = ResultShape(structured=True, objects_only=False, blocks=BLOCKS_2025_06)


class Modern:
    def __init__(self, operations: Operations, invocation: Invocation) -> None:
        self._operations = operations
        self._invocation = invocation
        self._latest: tuple[ServiceInfo | None, bytes] = (None, b"")
        self._handlers: dict[str, Callable[[Inbound, Request, dict[str, Any]], Awaitable[Reply | StreamReply]]] = {
            "server/discover": self._discover,
            "tools/list": self._list,
            "tools/call": self._call,
            "subscriptions/listen": self._listen,
        }

    def claims(self, message: Message, headers: Headers, legacy: tuple[str, ...]) -> bool:
        """Tell whether a message is of this era: by the body, whatever its method; else by a header that is no legacy
        version."""
        params = getattr(message, "params", None)
        if isinstance(params, dict) and isinstance(params.get("_meta"), dict) and META_VERSION in params["_meta"]:
            return True
        return PROTOCOL_VERSION in headers and headers.get(PROTOCOL_VERSION) not in legacy

    async def answer(self, inbound: Inbound, message: Message) -> Reply | StreamReply:
        """Raises :class:`GatewayError`; :meth:`refusal` makes the reply of it."""
        if isinstance(message, Notification):
            version = inbound.headers.get(PROTOCOL_VERSION)
            if version is not None and version not in VERSIONS:
                raise _unsupported(version)
            return Reply(202, method=message.method)
        if not isinstance(message, Request):
            raise BadMessage("Invalid request: responses are not accepted, the gateway asks nothing")
        handler, params = self._open(inbound.headers, message)
        return await handler(inbound, message, params)

    def refusal(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """HTTP status and body of an error."""
        status = error.status
        if isinstance(error, InvalidParams | InternalError):
            status = 200
        return status, jsonrpc.error_bytes(id, error)

    def _open(
        self, headers: Headers, request: Request
    ) -> tuple[Callable[[Inbound, Request, dict[str, Any]], Awaitable[Reply | StreamReply]], dict[str, Any]]:
        params = request.params if isinstance(request.params, dict) else {}
        for name in (PROTOCOL_VERSION, METHOD, NAME):
            if len(headers.getall(name, [])) > 1:
                raise HeaderMismatch(f"{name} is there twice")
        version = envelope_version(params.get("_meta"))
        agree(headers, PROTOCOL_VERSION, version)
        agree(headers, METHOD, request.method)
        if request.method == "tools/call" and isinstance(params.get("name"), str):
            agree(headers, NAME, params["name"], encoded=True)
        if version not in VERSIONS:
            raise _unsupported(version)
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {request.method[:128]}")
        return handler, params

    async def _discover(self, inbound: Inbound, request: Request, _: dict[str, Any]) -> Reply:
        # Nothing here waits for the backend: clients take any error for a server of an older era.
        info = self._operations.server_info(inbound.caller)
        capabilities = {"tools": {"listChanged": True}}
        result = {"resultType": "complete", "supportedVersions": list(VERSIONS), "capabilities": capabilities}
        if info.instructions:
            result["instructions"] = info.instructions
        tail = _meta(info, WHOLE)
        members = jsonrpc.encode(result)[1:-1]
        return self._reply(request, _cacheable(members, DISCOVER_TTL_MS, tail, shared=inbound.caller.view.shared))

    async def _list(self, inbound: Inbound, request: Request, params: dict[str, Any]) -> Reply:
        projector = PROJECTOR.named(self._invocation.naming(inbound.caller))
        page = await self._operations.list_tools(inbound.caller, params.get("cursor"), projector)
        members = b'"resultType":"complete","tools":' + page.tools
        if page.cursor is not None:
            members += b',"nextCursor":' + jsonrpc.encode(page.cursor)
        return self._reply(request, _cacheable(members, page.ttl_ms, self._tail(inbound.caller), shared=page.shared))

    async def _call(self, inbound: Inbound, request: Request, params: dict[str, Any]) -> Reply | StreamReply:
        name, arguments, token = asked_call(params)

        def agreed(named: Tool) -> dict[str, Any]:
            check_parameters(inbound.headers, named, arguments)
            return arguments

        call = await self._invocation.prepare(inbound.caller, name, agreed, extras_of(params))
        if token is None or not inbound.takes_stream:
            return self._reply(request, await self._result(call), call.tool.name)

        def start() -> asyncio.Task[bytes]:
            return asyncio.create_task(self._result(call, begun=True))

        # Closing the stream cancels the call (2026-07-28, basic/patterns/cancellation).
        shown = call.tool.named(self._invocation.naming(call.caller))
        events = progress.with_progress(request, token, start, self._operations.heartbeat, cancels=True, tool=shown)
        return StreamReply(events, method=request.method, tool=call.tool.name)

    async def _result(self, call: Call, *, begun: bool = False) -> bytes:
        return self._outcome(await call.execute(begun=begun), self._tail(call.caller))

    def _outcome(self, outcome: Outcome, tail: bytes) -> bytes:
        if outcome.ask is None:
            return b'{"resultType":"complete",%b,%b' % (outcome_members(outcome, SHAPE), tail)
        asked: dict[str, Any] = {"resultType": "input_required"}
        if outcome.ask.requests:
            asked["inputRequests"] = outcome.ask.requests
        if outcome.ask.state is not None:
            asked["requestState"] = outcome.ask.state
        return b"{%b,%b" % (jsonrpc.encode(asked)[1:-1], tail)

    async def _listen(self, inbound: Inbound, request: Request, params: dict[str, Any]) -> StreamReply:
        if not inbound.takes_stream:
            raise NotAcceptable("Accept must admit text/event-stream")
        wanted = params.get("notifications")
        if not isinstance(wanted, dict):
            raise InvalidParams('"notifications" must say which ones are wanted')
        self._operations.check_stream(inbound.caller)
        tools = wanted.get("toolsListChanged") is True
        return StreamReply(self._notices(inbound.caller, request.id, tools), method=request.method, notices=True)

    async def _notices(self, caller: Caller, id: Id, tools: bool) -> Events:
        """The acknowledgement, changes as they come, and the result when the gateway ends the stream."""
        meta = {META_SUBSCRIPTION: id}
        changes = self._operations.changes
        honoured = {"toolsListChanged": True} if tools else {}
        with self._operations.streams.held(caller.counted_as):
            subscription = changes.subscribe(caller.view)
            try:
                yield _notification(
                    "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": honoured}
                )
                changed = _notification("notifications/tools/list_changed", {"_meta": meta})
                while not Event.END & (event := await subscription.next()) and self._operations.goes_on(caller):
                    if Event.CHANGED in event and tools:
                        yield changed
                    elif Event.TICK in event:
                        yield None
                yield jsonrpc.result_bytes(id, jsonrpc.encode({"resultType": "complete", "_meta": meta}))
            finally:
                changes.unsubscribe(subscription)

    def _reply(self, request: Request, result: bytes, tool: str = "") -> Reply:
        return Reply(200, jsonrpc.result_bytes(request.id, result), method=request.method, tool=tool)

    def _tail(self, caller: Caller) -> bytes:
        """The end of every result; what introduces the server to people is in that of ``server/discover`` alone."""
        service = self._operations.service(caller)
        if self._latest[0] is not service:  # mostly all callers have the same
            self._latest = service, _meta(self._operations.server_info(caller), TITLED)
        return self._latest[1]


def _meta(info: ServerInfo, known: tuple[str, ...]) -> bytes:
    return b'"_meta":%b}' % jsonrpc.encode({META_SERVER: info.implementation(known)})


def _cacheable(members: bytes, ttl_ms: int, tail: bytes, *, shared: bool) -> bytes:
    scope = b"public" if shared else b"private"
    return b'{%b,"ttlMs":%d,"cacheScope":"%b",%b' % (members, ttl_ms, scope, tail)


def _unsupported(version: str) -> UnsupportedVersion:
    return UnsupportedVersion("Unsupported protocol version", data={"supported": list(VERSIONS), "requested": version})


def _notification(method: str, params: dict[str, Any]) -> bytes:
    return jsonrpc.encode({"jsonrpc": "2.0", "method": method, "params": params})
