"""Answer with JSON in one write of head and body.

:class:`aiohttp.web.Response` builds the headers of each answer anew, most of them the same each time, and passes them
through a chain of signals. Nearly all answers are JSON, so their constant headers are kept here as text. The methods
that are overridden are the public ones of :class:`aiohttp.web.StreamResponse`, which aiohttp's server calls.
"""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion, HttpVersion10

JSON: Final = "application/json"
COMMON_HEADERS: Final = {"Server": "gateway", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every answer. aiohttp's own ``Server`` names its version and Python's."""
LARGE: Final = 64 * 1024
"""Bytes of a body that is not copied to join it with its head."""
_CONTENT_TYPE: Final = f"Content-Type: {JSON}\r\n"
_FORBIDDEN: Final = re.compile(r"[\0-\x08\n-\x1f\x7f]")


class JsonAnswer(web.StreamResponse):
    """Answer with a ``body`` of JSON, or without content where it is empty. ``headers`` are those beside the constant
    ones, and may be changed until it is sent."""

    def __init__(self, body: bytes = b"", status: int = 200) -> None:
        super().__init__(status=status)
        # msgspec leaves up to half as much again unused behind what it writes, and a slow client makes this last.
        self.body = body if len(body) <= LARGE else bytes(memoryview(body))
        self._keeps_alive: bool | None = None  # None until it is known, as aiohttp has it
        self._is_sent = False

    @property
    def prepared(self) -> bool:
        return self._is_sent

    @property
    def keep_alive(self) -> bool | None:
        return self._keeps_alive

    def force_close(self) -> None:
        self._keeps_alive = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the whole answer. HEAD gets the head alone (RFC 9110 §9.3.2)."""
        if self._is_sent:
            return None
        self._is_sent = True
        writer = request.writer
        self._keeps_alive = request.keep_alive if self._keeps_alive is None else self._keeps_alive
        head = self._head(request.version)
        if request.method == "HEAD":
            await writer.write_eof(head)
        elif len(self.body) > LARGE:
            await writer.write(head)
            await writer.write_eof(self.body)
        else:
            await writer.write_eof(head + self.body)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: :meth:`prepare` has sent it all."""

    def _head(self, version: HttpVersion) -> bytes:
        lines = [_HEADS.of(self.status)]
        if self.body:
            lines.append(_CONTENT_TYPE)
        if self.status != HTTPStatus.NO_CONTENT:  # which must not have this header (RFC 9110 §8.6)
            lines.append(f"Content-Length: {len(self.body)}\r\n")
        for name, value in self.headers.items():
            if not value.isprintable() and _FORBIDDEN.search(value):  # the former is ten times as fast
                raise ValueError(f"the header {name} has a character that would break the head")
            lines.append(f"{name}: {value}\r\n")
        if not self._keeps_alive:
            lines.append("Connection: close\r\n")
        elif version == HttpVersion10:
            lines.append("Connection: keep-alive\r\n")
        lines.append("\r\n")
        return "".join(lines).encode()


class _Heads:
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
            head = self._heads[status] = _beginning(status, now)
        return head


def _beginning(status: int, now: int) -> str:
    common = "".join(f"{name}: {value}\r\n" for name, value in COMMON_HEADERS.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{common}Date: {formatdate(now, usegmt=True)}\r\n"


_HEADS: Final = _Heads()
