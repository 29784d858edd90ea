"""Errors and JSON as HTTP responses."""

from __future__ import annotations

import re
from typing import Any, Final

from aiohttp import web

from gateway import jsonrpc
from gateway.auth.challenge import challenge_of
from gateway.errors import Challenged, GatewayError, MethodNotAllowed, ToolFault
from gateway.web.context import CONTEXT

MCP_PATH: Final = "/mcp"
JSONRPC_PATH: Final = "/jsonrpc"
TOOL_PATH: Final = "/mcp/tools/{name}"
_TOOL: Final = re.compile(r"/mcp/tools/(?!invoke\Z)[^/]+")
JSON: Final = "application/json"
ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every answer."""


def json_response(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=JSON)


def rest_error(request: web.Request, error: GatewayError) -> web.Response:
    """``{"error": {"code", "message"}}``, as clients of older discovery endpoints know it."""
    body = {"error": {"code": error.slug, "message": error.message}}
    return with_headers(request, json_response(jsonrpc.encode(body), error.status), error)


def rpc_error(request: web.Request, error: GatewayError, id: jsonrpc.Id | None = None) -> web.Response:
    """A JSON-RPC 2.0 error response with the error's own HTTP status."""
    return with_headers(request, json_response(rpc_error_bytes(id, error), error.status), error)


def rpc_error_bytes(id: jsonrpc.Id | None, error: GatewayError) -> bytes:
    """An error as JSON-RPC 2.0 §5 has it: an unknown ``id`` is null, where MCP leaves it out. A service's own error is
    shown as such where it is passed on."""
    passed = error.passed if isinstance(error, ToolFault) else None
    return jsonrpc.error_bytes(jsonrpc.NULL if id is None else id, passed or error)


def mcp_error(request: web.Request, error: GatewayError) -> web.Response:
    """A JSON-RPC error response without ``id``: MCP's schema has no null one."""
    return with_headers(request, json_response(jsonrpc.error_bytes(None, error), error.status), error)


def refusal(request: web.Request, error: GatewayError) -> web.Response:
    """The answer to an exchange that ends before its handler had a say, in the language of the path: it may end before
    there is a route."""
    if request.path == MCP_PATH:
        return mcp_error(request, error)
    calls_a_tool = request.method == "POST" and _TOOL.fullmatch(request.path) is not None
    if calls_a_tool or request.path == JSONRPC_PATH:
        return rpc_error(request, error)
    return rest_error(request, error)


def with_headers(request: web.Request, response: web.Response, error: GatewayError) -> web.Response:
    """The response with the headers that the error asks for."""
    headers: dict[str, Any] = response.headers  # type: ignore[assignment]
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allow
    if isinstance(error, Challenged):
        context = request.app[CONTEXT]
        url = context.metadata.url if context.metadata else None
        scheme = context.authenticator.scheme if context.authenticator else "Bearer"
        headers["WWW-Authenticate"] = challenge_of(error, url, scheme)
    return response
