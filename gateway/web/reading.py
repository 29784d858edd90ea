"""Reading a request's body: only JSON, only so large, only so long."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from aiohttp import web

from gateway.errors import InvalidRequest, NotAcceptable, RequestTimeout, TooLarge, UnsupportedMediaType
from gateway.web.context import CONTEXT

_CHARSETS: Final = ("utf-8", "utf8")
_JSON_TYPES: Final = ("application/json",)
JSONRPC_TYPES: Final = ("application/json", "application/json-rpc", "application/jsonrequest")
"""What clients of plain JSON-RPC call their messages ("JSON-RPC over HTTP", a draft that many follow)."""


async def read_json_body(request: web.Request, types: Collection[str] = _JSON_TYPES) -> bytes:
    """The body, undecoded. Raises :class:`UnsupportedMediaType`, :class:`TooLarge`, :class:`RequestTimeout`.

    Content types beside ``types`` are refused, since a foreign page may send some without asking (CORS "simple
    requests").
    """
    context = request.app[CONTEXT]
    if request.headers.get("Content-Type") != "application/json":
        if request.content_type not in types:
            raise UnsupportedMediaType(f"Content-Type must be {' or '.join(types)}")
        if request.charset is not None and request.charset.lower() not in _CHARSETS:
            raise UnsupportedMediaType("JSON is UTF-8")
    if request.headers.get("Content-Encoding", "identity").lower() not in ("identity", "gzip"):
        raise UnsupportedMediaType("Content-Encoding must be identity or gzip")
    length = request.content_length
    if length is not None and length > context.max_body:
        raise _too_large(context.max_body)
    try:
        if request.content.is_eof():
            return await request.read()
        async with asyncio.timeout(context.body_timeout):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(context.max_body) from None
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {context.body_timeout:g} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise InvalidRequest("The body is incomplete, or not encoded as its headers say") from None


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The body is larger than {most} bytes")


def check_accepts_json(request: web.Request) -> None:
    """Raises :class:`NotAcceptable`. A client that accepts anything, or does not say, gets JSON."""
    accept = ",".join(request.headers.getall("Accept", ["*/*"]))
    if "*/*" in accept or "application/json" in accept or "application/*" in accept:
        return
    raise NotAcceptable("Accept must admit application/json")
