"""Errors and JSON as HTTP responses."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from gateway import jsonrpc
from gateway.errors import GatewayError, MethodNotAllowed

MCP_PATH: Final = "/mcp"
JSON: Final = "application/json"


def json_response(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=JSON)


def rest_error(error: GatewayError) -> web.Response:
    """``{"error": {"code", "message"}}``, as clients of older discovery endpoints know it."""
    body = {"error": {"code": error.slug, "message": error.message}}
    return _with_headers(json_response(jsonrpc.encode(body), error.status), error)


def rpc_error(error: GatewayError, id: jsonrpc.Id | None = None) -> web.Response:
    """A JSON-RPC error response with the error's own HTTP status."""
    return _with_headers(json_response(jsonrpc.error_bytes(id, error), error.status), error)


def refusal(request: web.Request, error: GatewayError) -> web.Response:
    """The answer to an exchange that ends before its handler had a say, in the language of the path."""
    return rpc_error(error) if request.path == MCP_PATH else rest_error(error)


def _with_headers(response: web.Response, error: GatewayError) -> web.Response:
    headers: dict[str, Any] = response.headers  # type: ignore[assignment]
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allow
    return response
