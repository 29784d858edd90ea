"""One HTTP/1.1 connection to the backend, and one exchange at a time on it (RFC 9112).

A connection is used again only after an answer that was complete and had nothing behind it. What comes while nobody
asked, and the end of an idle connection, close it at once.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

import httptools

from gateway.outbound import (
    CHUNK,
    KEEPALIVE,
    Answer,
    AnswerTooLarge,
    BadHttp,
    ConnectFailed,
    DeadlinePassed,
    Interrupted,
    NoRoom,
    OutboundError,
    input_check,
    media_type,
)
from gateway.tls import CERTIFICATE_ALERT, TlsFiles, tls_reason

MAX_HEAD: Final = 64 * 1024
"""Bytes of an answer before its body, and of what may come between two parts of its body and behind it."""
MAX_HEADERS: Final = 128
MAX_LINE: Final = 8190
"""Bytes of a header's name and value."""
_BAD_LINES: Final = "its headers are too long, or too many"
_NO_BODY: Final = (204, 304)
_KEEP_ALIVE: Final = re.compile(rb"timeout\s*=\s*(\d{1,6})", re.IGNORECASE)
_MOST_MEMBERS: Final = 100
"""Compressed members of one body. For each of them the rest of the body is copied."""
_ANY_ZLIB: Final = 32 + zlib.MAX_WBITS  # gzip and zlib, told apart by their first bytes
# As aiohttp does: old services end lines with LF alone, fold header lines, and put spaces after the size of a chunk.
_LENIENT: Final = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}


@dataclass(slots=True)
class _Incoming:
    """Hold an answer while it comes in. It may have at most ``max_bytes``; ``timeout`` is the whole time of the
    exchange in seconds. With the ``status`` come the ``headers``, and ``fields``, the first of each name in lower
    case."""

    answered: asyncio.Future[Answer]
    max_bytes: int
    timeout: float
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(init=False, repr=False)
    fields: dict[bytes, bytes] = field(init=False, repr=False)
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    reserved: int = 0
    is_complete: bool = False
    has_surplus: bool = False


class LeanConnection(asyncio.Protocol):
    """Exchange requests and answers on one connection. ``on_close`` is called once, when it is closed. ``reserve`` is
    as for :class:`~gateway.outbound.Outbound`."""

    def __init__(
        self, tls: TlsFiles, on_close: Callable[[LeanConnection], None], reserve: Callable[[int], bool]
    ) -> None:
        self.idle_since = 0.0
        self.patience = KEEPALIVE
        """Seconds for which it is used while idle: half of what the other side keeps it, if it told."""
        self.says_more = False
        """True once the other side has sent something that was no answer."""
        self._tls = tls
        self._on_close = on_close
        self._reserve = reserve
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**_LENIENT)
        self._incoming: _Incoming | None = None
        self._lines: list[tuple[bytes, bytes]] = []
        """The header lines or trailers that are coming in."""
        self._head_size = 0
        self._interim = False
        self._transport: asyncio.Transport  # from connection_made on, before anybody has this object
        self._check_input: Callable[[], list[Any]]
        self._reusable = True
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_context = Context()  # not that of the exchange that sets the timer, which would live as long

    @property
    def is_usable(self) -> bool:
        """Tell whether a request may be sent: the other side has sent nothing since the last answer, nor closed."""
        return self._reusable and not self._transport.is_closing() and not self._check_input()

    def begin(self, request: bytes, deadline: float, timeout: float, max_bytes: int) -> asyncio.Future[Answer]:
        """Send a request and return the future of its answer, which comes until ``deadline`` by the loop's clock, or is
        an :class:`~gateway.outbound.OutboundError`. Call :meth:`end` after it."""
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self._incoming = _Incoming(answered, max_bytes, timeout)
        self._lines = []
        self._head_size = 0
        self._deadline = deadline
        if self._timer is None or deadline < self._timer_at:
            self._set_timer()
        self._transport.write(request)
        return answered

    def end(self) -> None:
        """End an exchange. Close the connection if it ends early, or is the last one on it."""
        incoming, self._incoming = cast(_Incoming, self._incoming), None
        if incoming.reserved:
            self._reserve(-incoming.reserved)
        incoming.chunks.clear()  # the traceback of an error refers to them
        is_unsent = self._transport.get_write_buffer_size() > 0  # the answer came before it read the request
        self.says_more = self.says_more or incoming.has_surplus
        if not incoming.is_complete or self.says_more or is_unsent or not self._reusable:
            self.abort()

    def abort(self) -> None:
        """Close the connection, and drop what is not sent yet."""
        self._reusable = False
        self._transport.abort()

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._check_input = input_check(transport)

    def data_received(self, data: bytes) -> None:
        incoming = self._incoming
        if incoming is None or incoming.is_complete:
            self.says_more = True
            self.abort()
            return
        self._interim = False
        size = incoming.size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(BadHttp("status 101"))
        except httptools.HttpParserError as error:
            if incoming.is_complete:  # the bytes behind the answer are no HTTP
                incoming.has_surplus = True
            else:
                # A fault of a callback of ours is the cause; the parser's own faults have none.
                cause = error.__context__
                self._fail(cause if isinstance(cause, OutboundError) else BadHttp(type(error).__name__))
        if incoming.is_complete:
            self._finish(incoming)
            return
        self._head_size = 0 if self._interim or incoming.size != size else self._head_size + len(data)
        if self._head_size > MAX_HEAD:
            self._fail(BadHttp("its trailers are too large" if incoming.status else "its head is too large"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._reusable = False
        if self._timer is not None:
            self._timer.cancel()
        self._on_close(self)
        incoming = self._incoming
        if incoming is None or incoming.answered.done():
            return
        # A refused client certificate shows only on the first read with TLS 1.3, after the handshake is over for us.
        if isinstance(exc, ssl.SSLError) and CERTIFICATE_ALERT.search(exc.reason or ""):
            self._fail(ConnectFailed(tls_reason(exc, self._tls)))
        elif exc is None and incoming.status and _ends_with_connection(incoming):
            self._finish(incoming)
        else:
            self._fail(Interrupted("the connection ended before the answer did"))

    # The parser calls these.

    def on_message_begin(self) -> None:
        if self._incoming is not None and self._incoming.is_complete:
            self._incoming.has_surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        lines = self._lines
        lines.append((name, value))
        if len(lines) > MAX_HEADERS:
            raise BadHttp(_BAD_LINES)

    def on_headers_complete(self) -> None:
        incoming, status = self._incoming, self._parser.get_status_code()
        if incoming is None or incoming.is_complete:
            return
        headers = self._take_lines()
        if not 200 <= status <= 599:
            if 100 <= status < 200 and status != 101:  # interim: the answer follows (RFC 9110 §15.2)
                self._interim = True
                return
            raise BadHttp(f"status {status}")
        incoming.status, incoming.headers = status, headers
        fields = incoming.fields = {name.lower(): value for name, value in reversed(headers)}
        if fields.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise BadHttp("its transfer encoding is not chunked alone")
        length = fields.get(b"content-length", b"")
        if length.isdigit() and int(length) > incoming.max_bytes and status not in _NO_BODY:
            raise _too_large(incoming)

    def on_body(self, data: bytes) -> None:
        incoming = self._incoming
        if incoming is None or incoming.is_complete:
            return
        incoming.size += len(data)
        if incoming.size > incoming.max_bytes:
            raise _too_large(incoming)
        if incoming.size > CHUNK:
            self._keep(incoming, incoming.size - incoming.reserved)
        incoming.chunks.append(data)

    def on_message_complete(self) -> None:
        incoming = self._incoming
        if incoming is not None and incoming.status and not incoming.is_complete:
            if self._lines:
                self._take_lines()  # trailers must not change the head (RFC 9110 §6.5.1)
            incoming.is_complete = True
            self._reusable = self._reusable and self._parser.should_keep_alive()

    def _take_lines(self) -> list[tuple[bytes, bytes]]:
        """Return the lines that came since the last call. Raise :class:`BadHttp` where one is too long."""
        lines, self._lines = self._lines, []
        if max(map(len, map(b"".join, lines)), default=0) > MAX_LINE:
            raise BadHttp(_BAD_LINES)
        return lines

    def _keep(self, incoming: _Incoming, size: int) -> None:
        """Reserve room for bytes of the answer. Raises :class:`~gateway.outbound.NoRoom`."""
        if not self._reserve(size):
            raise NoRoom("too many answers are held")
        incoming.reserved += size

    def _finish(self, incoming: _Incoming) -> None:
        if incoming.answered.done():
            return
        chunks, fields = incoming.chunks, incoming.fields
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if body and b"content-encoding" in fields:
            coding = fields[b"content-encoding"].decode("latin-1").strip().lower()
            if coding in ("gzip", "x-gzip", "deflate"):
                try:
                    body = self._decompressed(body, coding, incoming)
                except OutboundError as error:
                    self._fail(error)
                    return
        told = _KEEP_ALIVE.search(fields[b"keep-alive"]) if b"keep-alive" in fields else None
        self.patience = min(KEEPALIVE, float(told[1]) / 2) if told else KEEPALIVE
        content_type = _media_type(fields.get(b"content-type", b""))
        incoming.answered.set_result(Answer(incoming.status, content_type, incoming.headers, body))

    def _decompressed(self, body: bytes, coding: str, incoming: _Incoming) -> bytes:
        """Return the whole body, of any number of gzip members. Its size is bounded while it grows."""
        parts: list[bytes] = []
        size = 0
        try:
            while body:
                # Some servers send deflate without the zlib header that RFC 9110 §8.4.1.2 asks for.
                is_raw = coding == "deflate" and body[0] & 0x0F != zlib.DEFLATED
                inflater = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else _ANY_ZLIB)
                if len(parts) == _MOST_MEMBERS:
                    raise BadHttp("its compressed body has too many members")
                part = inflater.decompress(body, incoming.max_bytes - size + 1)
                size += len(part)
                if size > incoming.max_bytes:
                    raise _too_large(incoming)
                if not inflater.eof:
                    raise BadHttp("its compressed body is incomplete")
                self._keep(incoming, len(part))
                parts.append(part)
                body = inflater.unused_data
        except zlib.error as error:
            raise BadHttp(f"its body is not {coding}") from error
        return b"".join(parts)

    def _fail(self, error: OutboundError) -> None:
        self._reusable = False
        if self._incoming is not None and not self._incoming.answered.done():
            self._incoming.answered.set_exception(error)

    def _set_timer(self) -> None:
        """Set the timer for the deadline. One timer serves successive exchanges, for most end long before it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._timer_at, self._time_out, context=self._timer_context)

    def _time_out(self) -> None:
        self._timer = None
        if self._incoming is None:
            return
        if self._timer_at < self._deadline:  # it was set for an earlier exchange
            self._set_timer()
        else:
            self._fail(DeadlinePassed(f"no complete answer within {self._incoming.timeout:g} s"))


def _ends_with_connection(incoming: _Incoming) -> bool:
    """Tell whether the end of the connection is the end of the body (RFC 9112 §6.3 rule 8)."""
    return b"content-length" not in incoming.fields and b"transfer-encoding" not in incoming.fields


@lru_cache(100)
def _media_type(content_type: bytes) -> str:
    return media_type(content_type.decode("latin-1"))


def _too_large(incoming: _Incoming) -> AnswerTooLarge:
    return AnswerTooLarge(f"larger than {incoming.max_bytes} bytes")
