"""Say why a request is not one of HTTP/1.1."""

from __future__ import annotations

from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong


class BadFraming(BadHttpMessage):
    """Raised for a request that can be read in two ways (request smuggling), or whose HTTP version is not served."""


def parser_fault(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return "The request line or a header is too long"
    return "The request is not HTTP/1.1 (RFC 9112)"
