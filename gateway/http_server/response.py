"""Send responses: whole ones in one piece of head and body, and streamed ones part by part (RFC 9112 §4, §6, §7)."""

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from gateway.http_server.request import HTTP10, HttpRequest

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
LARGE: Final = 64 * 1024
"""Bytes of a body that is not copied to join it with its head."""
COMMON_HEADERS: Final = {"Server": "gateway", "X-Content-Type-Options": "nosniff"}
"""Headers of every response. A ``Server`` that names versions would help attackers (RFC 9110 §10.2.4)."""
NO_STORE: Final = {"Cache-Control": "no-store"}
"""Header of every response that has no ``Cache-Control`` of its own."""
_WITHOUT_LENGTH: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
"""Statuses whose responses must not have the header Content-Length of an empty body (RFC 9110 §8.6)."""
_FORBIDDEN: Final = re.compile(r"[\0-\x08\n-\x1f\x7f]")


class Response:
    """Hold a response, without content where ``body`` is empty. ``headers`` are those beside the constant ones."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, body: bytes = b"", status: int = 200, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        # msgspec leaves up to half as much again unused behind what it writes, and a slow client makes this last.
        self.body = body if len(body) <= LARGE else bytes(memoryview(body))
        self.status = status
        self.content_type = content_type
        self.headers = {} if headers is None else dict(headers)

    def send(self, request: HttpRequest) -> None:
        """Send the whole response, to HEAD the head alone (RFC 9110 §9.3.2). Raise :class:`ValueError`, and send
        nothing, where a header would break the head."""
        body = self.body
        length = "" if self.status in _WITHOUT_LENGTH else f"Content-Length: {len(body)}\r\n"
        head = _head(request, self.status, self.content_type if body else "", length, self.headers)
        write = request.connection.transport.write
        if not body or request.method == "HEAD":
            write(head)
        elif len(body) > LARGE:
            write(head)
            write(body)
        else:
            write(head + body)


def raw_response(body: bytes, status: int, retry_after: int | None) -> bytes:
    """Return a whole HTTP response with JSON, for a connection that no request was read from. It is closed then."""
    fields = {"Content-Type": JSON, "Content-Length": str(len(body)), "Connection": "close", **NO_STORE}
    if retry_after is not None:
        fields["Retry-After"] = str(retry_after)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{_lines(COMMON_HEADERS | fields)}\r\n".encode() + body


class StreamedResponse:
    """Hold a response whose ``parts``, none of them empty, are sent as they come. ``on_end`` is called once, with None
    or what ended it early: :class:`ConnectionError` or :class:`asyncio.CancelledError` where the client left."""

    __slots__ = ("_parts", "content_type", "headers", "on_end", "status")

    def __init__(self, parts: AsyncGenerator[bytes, None], content_type: str, headers: Mapping[str, str]) -> None:
        self._parts = parts
        self.content_type = content_type
        self.headers = dict(headers)
        self.status = 200
        self.on_end: Callable[[BaseException | None], None] = lambda _: None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the parts, and close them after the block. A :class:`ConnectionError` in it is not raised."""
        try:
            async with aclosing(self._parts) as parts:
                yield parts
        except BaseException as error:
            self.on_end(error)
            if not isinstance(error, ConnectionError):
                raise
        else:
            self.on_end(None)

    async def send(self, request: HttpRequest) -> None:
        """Send the response to its end. A client that does not read stops the stream."""
        connection = request.connection
        async with self.open() as parts:
            request.is_stream = True
            is_chunked = request.version != HTTP10
            if not is_chunked:
                request.keep_alive = False  # the end of the connection is that of the stream
            framing = "Transfer-Encoding: chunked\r\n" if is_chunked else ""
            connection.transport.write(_head(request, self.status, self.content_type, framing, self.headers))
            await connection.drain()
            async for part in parts:
                connection.transport.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                await connection.drain()
            if is_chunked:
                connection.transport.write(b"0\r\n\r\n")
                await connection.drain()


def _head(request: HttpRequest, status: int, content_type: str, lines: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of the response to a request, which has begun then. ``lines`` say how its body ends. Raise
    :class:`ValueError`."""
    if request.connection.is_draining:
        request.keep_alive = False
    for name, value in headers.items():
        if not value.isprintable() and _FORBIDDEN.search(value):  # the former is ten times as fast
            raise ValueError(f"the header {name} has a character that would break the head")
        lines += f"{name}: {value}\r\n"
    if "Cache-Control" not in headers:
        lines += _NO_STORE
    if not request.keep_alive:
        lines += "Connection: close\r\n"
    elif request.version == HTTP10:
        lines += "Connection: keep-alive\r\n"
    request.response_begun = True
    return f"{_first_lines(status, content_type, int(time.time()))}{lines}\r\n".encode()


@lru_cache(64)
def _first_lines(status: int, content_type: str, now: int) -> str:
    """Return the status line and the constant headers, of which Date is right for a second."""
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{_lines(COMMON_HEADERS)}"
    content = f"Content-Type: {content_type}\r\n" if content_type else ""
    return f"{head}Date: {formatdate(now, usegmt=True)}\r\n{content}"


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


_NO_STORE: Final = _lines(NO_STORE)
