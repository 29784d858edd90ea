"""2024-11-05 to 2025-11-25: ``initialize`` negotiates a revision, and later requests name it in a header.

No session is kept: the header says all there is to know, and a request without it is of 2025-03-26 (2025-11-25,
basic/transports "Protocol Version Header"). JSON-RPC errors travel on HTTP 200, since clients take a 404 for the end
of a session. Batches exist at 2025-03-26 alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import GatewayError, InvalidRequest, MethodNotFound, ParseError
from gateway.jsonrpc import BadMessage, Id, Message, Request
from gateway.mcp.content import fault_members, value_members
from gateway.mcp.exchange import PROTOCOL_VERSION, Headers, Inbound, Reply
from gateway.mcp.operations import Operations
from gateway.mcp.projection import ToolProjector
from gateway.model import Caller

MAX_BATCH: Final = 50


@dataclass(frozen=True, slots=True)
class Revision:
    """What a revision knows of tools and results."""

    version: str
    projector: ToolProjector
    structured: bool = False
    batches: bool = False


_STRUCTURED: Final = ToolProjector("2025-06-18", objects_only=True)
_ANNOTATED: Final = ToolProjector("2025-03-26", titles=False, outputs=False)
_PLAIN: Final = ToolProjector("2024-11-05", annotations=False, titles=False, outputs=False)

REVISIONS: Final = {
    revision.version: revision
    for revision in (
        Revision("2025-11-25", _STRUCTURED, structured=True),
        Revision("2025-06-18", _STRUCTURED, structured=True),
        Revision("2025-03-26", _ANNOTATED, batches=True),
        Revision("2024-11-05", _PLAIN),
    )
}
VERSIONS: Final = tuple(REVISIONS)
LATEST: Final = VERSIONS[0]
ASSUMED: Final = "2025-03-26"
PROJECTORS: Final = (_STRUCTURED, _ANNOTATED, _PLAIN)


class Legacy:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._handlers: dict[str, Callable[[Caller, dict[str, Any], Revision], Awaitable[bytes]]] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list,
            "tools/call": self._call,
        }

    def revision(self, headers: Headers) -> Revision:
        return REVISIONS[headers.get(PROTOCOL_VERSION) or ASSUMED]

    async def answer(self, inbound: Inbound, message: Message) -> Reply:
        """Raises :class:`GatewayError`; :meth:`refusal` makes the reply of it."""
        if not isinstance(message, Request):
            return Reply(202, method=getattr(message, "method", "response"))
        handler = self._handlers.get(message.method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {message.method[:128]}")
        params = message.params if isinstance(message.params, dict) else {}
        result = await handler(inbound.caller, params, self.revision(inbound.headers))
        name = params.get("name") if message.method == "tools/call" else ""
        tool = name if isinstance(name, str) else ""
        return Reply(200, jsonrpc.result_bytes(message.id, result), method=message.method, tool=tool)

    async def answer_batch(
        self, inbound: Inbound, items: list[Any], one: Callable[[Inbound, Any], Awaitable[Reply]]
    ) -> Reply:
        """Each item on its own, through ``one``, in order. Raises :class:`BadMessage`."""
        if not self.revision(inbound.headers).batches:
            raise BadMessage("Invalid request: batches exist at 2025-03-26 alone")
        if not 0 < len(items) <= MAX_BATCH:
            raise BadMessage(f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
        if any(isinstance(item, dict) and item.get("method") == "initialize" for item in items):
            raise BadMessage("Invalid request: initialize must not be in a batch")
        bodies = [reply.body for item in items if (reply := await one(inbound, item)).body]
        if not bodies:
            return Reply(202, method="batch")
        return Reply(200, b"[" + b",".join(bodies) + b"]", method="batch")

    def refusal(self, error: GatewayError, id: Id | None) -> tuple[int, bytes]:
        """HTTP status and body of an error."""
        refuses = error.refuses or isinstance(error, ParseError | InvalidRequest)
        return error.status if refuses else 200, jsonrpc.error_bytes(id, error)

    async def _initialize(self, _: Caller, params: dict[str, Any], __: Revision) -> bytes:
        asked = params.get("protocolVersion")
        version = asked if isinstance(asked, str) and asked in REVISIONS else LATEST
        info = self._operations.info
        server = {"name": info.name, "version": info.version}
        if info.title and REVISIONS[version].structured:
            server["title"] = info.title
        return jsonrpc.encode({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})

    async def _ping(self, _: Caller, __: dict[str, Any], ___: Revision) -> bytes:
        return b"{}"

    async def _list(self, caller: Caller, params: dict[str, Any], revision: Revision) -> bytes:
        page = await self._operations.list_tools(caller, params.get("cursor"), revision.projector)
        if page.cursor is None:
            return b'{"tools":%b}' % page.tools
        return b'{"tools":%b,"nextCursor":%b}' % (page.tools, jsonrpc.encode(page.cursor))

    async def _call(self, caller: Caller, params: dict[str, Any], revision: Revision) -> bytes:
        outcome = await self._operations.call_tool(caller, params)
        if outcome.fault is not None:
            return b"{%b}" % fault_members(outcome.fault)
        return b"{%b}" % value_members(outcome, structured=revision.structured, objects_only=True)
