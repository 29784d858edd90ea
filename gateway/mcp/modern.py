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

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import (
    GatewayError,
    HeaderMismatch,
    InternalError,
    InvalidEnvelope,
    InvalidParams,
    MethodNotFound,
    UnsupportedVersion,
)
from gateway.jsonrpc import BadMessage, Id, Message, Notification, Request
from gateway.mcp.content import fault_members, value_members
from gateway.mcp.exchange import METHOD, NAME, PROTOCOL_VERSION, Headers, Inbound, Reply
from gateway.mcp.operations import Operations
from gateway.mcp.projection import ToolProjector
from gateway.model import Caller

VERSIONS: Final = ("2026-07-28",)
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
DISCOVER_TTL_MS: Final = 300_000
PROJECTOR: Final = ToolProjector("2026-07-28")

_VISIBLE = re.compile(r"[\t\x20-\x7e]*")
_BASE64 = re.compile(r"=\?base64\?(.*)\?=")


class Modern:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        info = operations.info
        server = {"name": info.name, "version": info.version} | ({"title": info.title} if info.title else {})
        self._tail = b'"_meta":%b}' % jsonrpc.encode({META_SERVER: server})
        self._handlers: dict[str, Callable[[Caller, dict[str, Any]], Awaitable[bytes]]] = {
            "server/discover": self._discover,
            "tools/list": self._list,
            "tools/call": self._call,
        }

    def claims(self, message: Message, headers: Headers, legacy: tuple[str, ...]) -> bool:
        """Whether a message is of this era: by the body, whatever its method; else by a header that is no legacy
        version."""
        params = getattr(message, "params", None)
        if isinstance(params, dict) and isinstance(params.get("_meta"), dict) and META_VERSION in params["_meta"]:
            return True
        return PROTOCOL_VERSION in headers and headers.get(PROTOCOL_VERSION) not in legacy

    async def answer(self, inbound: Inbound, message: Message) -> Reply:
        """Raises :class:`GatewayError`; :meth:`refusal` makes the reply of it."""
        if isinstance(message, Notification):
            return Reply(202, method=message.method)
        if not isinstance(message, Request):
            raise BadMessage("Invalid request: responses are not accepted, the gateway asks nothing")
        handler, params = self._open(inbound.headers, message)
        result = await handler(inbound.caller, params)
        tool = params.get("name", "") if message.method == "tools/call" else ""
        return Reply(200, jsonrpc.result_bytes(message.id, result), method=message.method, tool=tool)

    def refusal(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """HTTP status and body of an error."""
        status = error.status
        if isinstance(error, InvalidParams | InternalError):
            status = 200
        return status, jsonrpc.error_bytes(id, error)

    def _open(
        self, headers: Headers, request: Request
    ) -> tuple[Callable[[Caller, dict[str, Any]], Awaitable[bytes]], dict[str, Any]]:
        params = request.params if isinstance(request.params, dict) else {}
        for name in (PROTOCOL_VERSION, METHOD, NAME):
            if len(headers.getall(name, [])) > 1:
                raise HeaderMismatch(f"{name} is there twice")
        version = _envelope_version(params.get("_meta"))
        _agree(headers, PROTOCOL_VERSION, version)
        _agree(headers, METHOD, request.method)
        if request.method == "tools/call" and isinstance(params.get("name"), str):
            _agree(headers, NAME, params["name"], encoded=True)
        if version not in VERSIONS:
            raise UnsupportedVersion(
                "Unsupported protocol version", data={"supported": list(VERSIONS), "requested": version}
            )
        handler = self._handlers.get(request.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {request.method[:128]}")
        return handler, params

    async def _discover(self, _: Caller, __: dict[str, Any]) -> bytes:
        # Nothing here depends on the backend: clients take any error for a server of an older era.
        result = {
            "resultType": "complete",
            "supportedVersions": list(VERSIONS),
            "capabilities": {"tools": {}},
        }
        return self._close(jsonrpc.encode(result)[1:-1], DISCOVER_TTL_MS, shared=True)

    async def _list(self, caller: Caller, params: dict[str, Any]) -> bytes:
        page = await self._operations.list_tools(caller, params.get("cursor"), PROJECTOR)
        members = b'"resultType":"complete","tools":' + page.tools
        if page.cursor is not None:
            members += b',"nextCursor":' + jsonrpc.encode(page.cursor)
        return self._close(members, page.ttl_ms, shared=page.shared)

    async def _call(self, caller: Caller, params: dict[str, Any]) -> bytes:
        outcome = await self._operations.call_tool(caller, params)
        if outcome.fault is not None:
            members = fault_members(outcome.fault)
        else:
            members = value_members(outcome, structured=True, objects_only=False)
        return b'{"resultType":"complete",%b,%b' % (members, self._tail)

    def _close(self, members: bytes, ttl_ms: int, *, shared: bool) -> bytes:
        scope = b"public" if shared else b"private"
        return b'{%b,"ttlMs":%d,"cacheScope":"%b",%b' % (members, ttl_ms, scope, self._tail)


def _envelope_version(meta: Any) -> str:
    if not isinstance(meta, dict):
        raise InvalidEnvelope('Required "_meta" is missing')
    version = meta.get(META_VERSION)
    if not isinstance(version, str):
        raise InvalidEnvelope(f'"_meta" lacks "{META_VERSION}"')
    if not isinstance(meta.get(META_CAPABILITIES), dict):
        raise InvalidEnvelope(f'"_meta" lacks "{META_CAPABILITIES}"')
    return version


def _agree(headers: Headers, name: str, body: str, *, encoded: bool = False) -> None:
    """Compare a header with the body, which alone decides. Raises :class:`HeaderMismatch`."""
    value = headers.get(name)
    if value == body and not encoded:
        return
    if value is None:
        raise HeaderMismatch(f"{name} is missing")
    if not _VISIBLE.fullmatch(value):
        raise HeaderMismatch(f"{name} has characters that no header may have")
    if encoded:
        value = decoded(name, value)
    if value != body:
        raise HeaderMismatch(f"{name} does not agree with the body")


def decoded(name: str, value: str) -> str:
    """A header value out of its ``=?base64?…?=`` form, if it has it. Raises :class:`HeaderMismatch`."""
    match = _BASE64.fullmatch(value)
    if match is None:
        return value
    try:
        raw = base64.b64decode(match[1], validate=True)
        if base64.b64encode(raw).decode() == match[1]:  # the decoder lets excess padding and stray bits pass
            return raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise HeaderMismatch(f"{name} is not valid base64 of UTF-8")
