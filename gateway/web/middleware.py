"""What every request of the public port passes, outermost first.

1. the log line, and the shield that turns whatever was raised into an answer
2. the public documents about who issues tokens for us: for everybody, from anywhere
3. host and origin
4. the caller's token
5. the route's handler
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web

from gateway.errors import GatewayError, InternalError, MethodNotAllowed, NotFound, Refused, TooLarge
from gateway.telemetry import logs
from gateway.web.context import CONTEXT, TRACE, Trace, authenticate
from gateway.web.metadata import metadata_response
from gateway.web.replies import ALWAYS, MCP_PATH, refusal

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CORS_HEADERS: Final = (
    "Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"
)
# Tools name these (x-mcp-header), so they are allowed as a page asks for them.
_MIRRORED: Final = re.compile(r"(?i)(?<![^\s,])mcp-param-[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Max-Age": "600",
}

log = structlog.get_logger()


@web.middleware
async def logged(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One line for each request; answers for everything that was raised."""
    started = time.perf_counter()
    trace = request[TRACE] = Trace()
    status = 0
    try:
        response = await _shielded(request, handler)
        status = response.status
        return response
    finally:
        if logs.enabled("info"):
            # A status of 0 is a client that left before its answer.
            ms = round((time.perf_counter() - started) * 1000, 1)
            log.info("request", http=request.method, path=request.path, status=status, ms=ms, **trace.fields)


async def _shielded(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        document = metadata_response(request)
        if document is not None:
            return document
        early = _guarded(request)
        if early is not None:
            return early
        if request.match_info.http_exception is None:
            await authenticate(request)
        return await handler(request)
    except GatewayError as error:
        return refusal(request, error)
    except web.HTTPException as error:
        return refusal(request, _ours(error, request.path))
    except Exception:
        log.exception("internal error", path=request.path)
        return refusal(request, InternalError())


def _ours(error: web.HTTPException, path: str) -> GatewayError:
    if isinstance(error, web.HTTPMethodNotAllowed):
        return MethodNotAllowed("Method not allowed", allow=", ".join(sorted(error.allowed_methods)))
    if isinstance(error, web.HTTPNotFound):
        return NotFound(f"Not found; the MCP endpoint is {MCP_PATH}" if path == f"{MCP_PATH}/" else "Not found")
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return TooLarge("The body is too large")
    failure = Refused(error.reason or "Refused")
    failure.status = error.status  # type: ignore[misc]
    return failure


def _guarded(request: web.Request) -> web.Response | None:
    """Refuses foreign hosts and origins, answers preflights, and notes whose pages may read the answer (CORS)."""
    origins = request.app[CONTEXT].origins
    origins.check_host(request.host)
    origin = request.headers.get("Origin")
    if origin is None:
        return None
    request[TRACE].cors = (origin, origins.check_origin(origin, request.host))
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        mirrored = _MIRRORED.findall(request.headers.get("Access-Control-Request-Headers", ""))
        allowed = ", ".join((_CORS_HEADERS, *mirrored))
        return web.Response(status=204, headers={**_PREFLIGHT, "Access-Control-Allow-Headers": allowed})
    return None


async def complete_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Headers of every answer, a stream's and an error's included, just before they are sent."""
    headers = response.headers
    for name, value in ALWAYS.items():
        headers.setdefault(name, value)
    cors = request[TRACE].cors if TRACE in request else None
    if cors is not None:
        origin, foreign = cors
        headers["Vary"] = "Authorization, Origin" if request.app[CONTEXT].authenticator else "Origin"
        if foreign:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id, WWW-Authenticate, Retry-After"


MIDDLEWARES: Final = (logged,)
