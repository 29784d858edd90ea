"""Write answers: whole ones in one piece of head and body, and streams part by part."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from gateway.http_server.request import HTTP10, HttpRequest

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
LARGE: Final = 64 * 1024
"""Bytes of a body that is not copied to join it with its head."""
COMMON_HEADERS: Final = {"Server": "gateway", "X-Content-Type-Options": "nosniff"}
"""Headers of every answer. A ``Server`` that names versions would help attackers (RFC 9110 §10.2.4)."""
NO_STORE: Final = {"Cache-Control": "no-store"}
"""Header of every answer that has no ``Cache-Control`` of its own."""
_FORBIDDEN: Final = re.compile(r"[\0-\x08\n-\x1f\x7f]")


class HttpAnswer:
    """Answer with a ``body``, or without content where it is empty. ``headers`` are those beside the constant ones, and
    may be changed until it is sent."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, body: bytes = b"", status: int = 200, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        # msgspec leaves up to half as much again unused behind what it writes, and a slow client makes this last.
        self.body = body if len(body) <= LARGE else bytes(memoryview(body))
        self.status = status
        self.content_type = content_type
        self.headers = {} if headers is None else dict(headers)

    def __repr__(self) -> str:
        return f"<HttpAnswer {self.status}, {len(self.body)} bytes>"

    def send(self, request: HttpRequest) -> None:
        """Send the whole answer. HEAD gets the head alone (RFC 9110 §9.3.2)."""
        body = self.body
        lines = []
        if body:
            lines.append(_CONTENT_TYPE if self.content_type is JSON else f"Content-Type: {self.content_type}\r\n")
        if self.status != HTTPStatus.NO_CONTENT:  # which must not have this header (RFC 9110 §8.6)
            lines.append(f"Content-Length: {len(body)}\r\n")
        head = _head(request, self.status, lines, self.headers)
        write = request.wire.transport.write
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


class StreamedAnswer:
    """Answer with parts that are sent as they come, until the stream ends."""

    __slots__ = ("_is_chunked", "_request", "content_type", "has_begun", "headers", "status")

    def __init__(self, content_type: str, headers: Mapping[str, str]) -> None:
        self.content_type = content_type
        self.headers = dict(headers)
        self.status = 200
        self.has_begun = False
        self._is_chunked = False

    async def begin(self, request: HttpRequest) -> None:
        """Send the head. Raise :class:`ConnectionError` where the client is gone, as the other methods do."""
        self._request = request
        self.has_begun = request.is_stream = True
        self._is_chunked = request.version != HTTP10
        lines = [f"Content-Type: {self.content_type}\r\n"]
        if self._is_chunked:
            lines.append("Transfer-Encoding: chunked\r\n")
        else:
            request.keep_alive = False  # the end of the connection is that of the stream
        request.wire.transport.write(_head(request, self.status, lines, self.headers))
        await request.wire.drain()

    async def write(self, part: bytes) -> None:
        """Send a part, which is not empty. Return once the kernel has it: a client that does not read stops the
        stream."""
        wire = self._request.wire
        wire.transport.write(b"%x\r\n%b\r\n" % (len(part), part) if self._is_chunked else part)
        await wire.drain()

    async def end(self) -> None:
        if self._is_chunked:
            self._request.wire.transport.write(b"0\r\n\r\n")
            await self._request.wire.drain()


def _head(request: HttpRequest, status: int, lines: list[str], headers: Mapping[str, str]) -> bytes:
    """Return the head of the answer to a request, which has begun then."""
    if request.wire.is_draining:
        request.keep_alive = False
    for name, value in headers.items():
        if not value.isprintable() and _FORBIDDEN.search(value):  # the former is ten times as fast
            raise ValueError(f"the header {name} has a character that would break the head")
        lines.append(f"{name}: {value}\r\n")
    if "Cache-Control" not in headers:
        lines.append(_NO_STORE)
    if not request.keep_alive:
        lines.append("Connection: close\r\n")
    elif request.version == HTTP10:
        lines.append("Connection: keep-alive\r\n")
    lines.append("\r\n")
    request.has_answer = True
    return (_BEGINNINGS.of(status) + "".join(lines)).encode()


class _Beginnings:
    """Hold the beginning of heads by their status, each for as long as its Date is right: a second."""

    def __init__(self) -> None:
        self._second = 0
        self._heads: dict[int, str] = {}

    def of(self, status: int) -> str:
        now = int(time.time())
        if now != self._second:
            self._second, self._heads = now, {}
        head = self._heads.get(status)
        if head is None:
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{_lines(COMMON_HEADERS)}"
            head = self._heads[status] = f"{head}Date: {formatdate(now, usegmt=True)}\r\n"
        return head


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


_CONTENT_TYPE: Final = f"Content-Type: {JSON}\r\n"
_NO_STORE: Final = _lines(NO_STORE)
_BEGINNINGS: Final = _Beginnings()
