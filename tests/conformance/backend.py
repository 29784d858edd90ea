"""The service behind the gateway: plain JSON-RPC 2.0 over HTTP, which knows nothing of MCP's transports.

It lists its methods at ``GET /mcp/tools/list``, the form that carries each argument schema as a whole.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from tests.conformance import asking, plain
from tests.conformance.method import Failure, JsonObject, Methods, Params

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602


class Backend:
    """Listens on a free port of the loopback interface within ``async with``; ``url`` is its endpoint."""

    def __init__(self) -> None:
        self.url = ""
        self._methods = Methods({**plain.METHODS, **asking.METHODS})
        self._methods.add("test_trigger_tool_change")(self._trigger_tool_change)
        application = web.Application()
        application.router.add_post("/jsonrpc", self._rpc)
        application.router.add_get("/mcp/tools/list", self._list)
        self._runner = web.AppRunner(application, access_log=None)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/jsonrpc"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _trigger_tool_change(self, _: Params) -> str:
        """Adds a method to the listing, or takes it away again."""
        name = "test_trigger_tool_change_added"
        if self._methods.pop(name, None):
            return f"{name} is gone."
        self._methods.add(name)(plain.simple_text)
        return f"{name} is there."

    async def _list(self, _: web.Request) -> web.Response:
        tools = [
            {"name": method.name, "description": method.description, "inputSchema": method.schema}
            for method in self._methods.values()
        ]
        return web.json_response({"tools": tools, "nextCursor": None})

    async def _rpc(self, request: web.Request) -> web.Response:
        try:
            message = json.loads(await request.read())
        except ValueError:
            return web.json_response(_failed(None, Failure(PARSE_ERROR, "Parse error")))
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return web.json_response(_failed(None, Failure(INVALID_REQUEST, "Invalid request")))
        try:
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": await self._call(message)}
        except Failure as failure:
            answer = _failed(message.get("id"), failure)
        return web.json_response(answer) if "id" in message else web.Response(status=204)

    async def _call(self, message: JsonObject) -> Any:
        method = self._methods.get(str(message.get("method")))
        if method is None:
            raise Failure(METHOD_NOT_FOUND, "Method not found")
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise Failure(INVALID_PARAMS, "Invalid params: by name, please")
        return await method.answer(params)


def _failed(id: Any, failure: Failure) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": failure.code, "message": str(failure)}}
