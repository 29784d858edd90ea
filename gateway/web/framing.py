"""Say why a request is not one of HTTP/1.1."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong

_SERVED: Final = (HttpVersion11, HttpVersion10)


class BadFraming(BadHttpMessage):
    """Raised for a request that can be read in two ways (request smuggling), or whose HTTP version is not served."""


def parser_fault(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return "The request line or a header is too long"
    return "The request is not HTTP/1.1 (RFC 9112)"


def check_framing(request: web.BaseRequest) -> None:
    """Raise :class:`BadFraming` for a request whose end a proxy in front may have seen elsewhere (request smuggling).

    RFC 9112 §6.1: a server treats Transfer-Encoding with HTTP/1.0 as faulty framing.
    """
    version, headers = request.version, request.headers
    if version not in _SERVED:
        raise BadFraming(message="Only HTTP/1.1 and HTTP/1.0 are served")
    coding = headers.get("Transfer-Encoding")
    if coding is not None and version == HttpVersion10:
        raise BadFraming(message="HTTP/1.0 has no Transfer-Encoding: send Content-Length, or HTTP/1.1")
    if coding is not None and coding.lower() != "chunked":
        # The parser accepts "gzip, chunked" and leaves the body compressed (RFC 9112 §6.1: refuse an unknown coding).
        raise BadFraming(message="Transfer-Encoding must be chunked")
    if len(headers.getall("Content-Encoding", ())) > 1:
        raise BadFraming(message="Content-Encoding must be given once")
