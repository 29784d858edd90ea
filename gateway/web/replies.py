"""Errors and JSON as HTTP responses."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from gateway import jsonrpc
from gateway.auth.challenge import challenge_of
from gateway.errors import Challenged, GatewayError, MethodNotAllowed
from gateway.web.context import CONTEXT

MCP_PATH: Final = "/mcp"
JSONRPC_PATH: Final = "/jsonrpc"
RPC_PATHS: Final = (MCP_PATH, JSONRPC_PATH)
JSON: Final = "application/json"


def json_response(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=JSON)


def rest_error(request: web.Request, error: GatewayError) -> web.Response:
    """``{"error": {"code", "message"}}``, as clients of older discovery endpoints know it."""
    body = {"error": {"code": error.slug, "message": error.message}}
    return with_headers(request, json_response(jsonrpc.encode(body), error.status), error)


def rpc_error(request: web.Request, error: GatewayError, id: jsonrpc.Id | None = None) -> web.Response:
    """A JSON-RPC error response with the error's own HTTP status."""
    return with_headers(request, json_response(jsonrpc.error_bytes(id, error), error.status), error)


def refusal(request: web.Request, error: GatewayError) -> web.Response:
    """The answer to an exchange that ends before its handler had a say, in the language of the path."""
    return rpc_error(request, error) if request.path in RPC_PATHS else rest_error(request, error)


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
