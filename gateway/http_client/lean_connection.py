"""One HTTP/1.1 connection to the backend, and one exchange at a time on it (RFC 9112).

It is used again only after an answer that was complete and had nothing behind it. Bytes on an idle one close it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

import httptools

from gateway.concurrency.turns import Deadline, EndOfTurnQueue
from gateway.http_client import response
from gateway.http_client.response import CHUNK, KEEPALIVE, Answer, OutboundError, input_check
from gateway.http_client.tls import CERTIFICATE_ALERT, TlsFiles, tls_reason

MAX_HEAD: Final = 64 * 1024
"""Bytes of an answer before its body, and of what may come between two parts of its body and behind it."""
MAX_HEADERS: Final = 128
MAX_LINE: Final = 8190
"""Bytes of a header's name and value."""
MAX_INTERIM: Final = 20  # interim responses before the answer
_BAD_LINES: Final = "its headers are too long, or too many"
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_NOTED: Final = frozenset((b"transfer-encoding", b"content-encoding", b"keep-alive"))
"""Headers that most answers do not have, and that say how to read one, or how long the connection is kept."""
_NOTED_SIZES: Final = frozenset(map(len, _NOTED))
_KEEP_ALIVE: Final = re.compile(rb"timeout\s*=\s*(\d{1,6})", re.IGNORECASE)
_MOST_MEMBERS: Final = 100  # compressed members of one body. For each of them the rest of the body is copied.
_CODINGS: Final = ("gzip", "x-gzip", "deflate")
_ANY_ZLIB: Final = 32 + zlib.MAX_WBITS  # gzip and zlib, told apart by their first bytes
# As aiohttp does: old services end lines with LF alone, fold header lines, and put spaces after the size of a chunk.
_LENIENT: Final = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}


class LeanConnection(asyncio.Protocol):
    """Exchange requests on one connection. ``on_close`` is called once, ``on_unsolicited`` where the server has sent
    bytes that belong to no response; ``reserve`` is as in :class:`Outbound`."""

    # uvloop and the parser would otherwise make Python keep all of these in a dict, where each takes longer to find.
    __slots__ = (
        "_answered", "_check_input", "_chunks", "_coding", "_deadline", "_has_noted", "_head_size", "_headers",
        "_interim", "_is_complete", "_is_sent", "_lines", "_loop", "_max_bytes", "_on_close", "_on_unsolicited",
        "_parser", "_received", "_reserve", "_reserved", "_reusable", "_size", "_status", "_timeout", "_tls",
        "_transport", "_writes", "idle_since", "patience",
    )  # fmt: skip

    def __init__(
        self,
        tls: TlsFiles,
        writes: EndOfTurnQueue,
        on_close: Callable[[LeanConnection], None],
        on_unsolicited: Callable[[], None],
        reserve: Callable[[int], bool],
    ) -> None:
        self.idle_since = 0.0
        self.patience = KEEPALIVE
        """Seconds for which it is used while idle: half of what the other side keeps it, if it told."""
        self._tls = tls
        self._on_close = on_close
        self._on_unsolicited = on_unsolicited
        self._reserve = reserve
        self._writes = writes
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**_LENIENT)
        # The exchange under way, and what has come of its answer.
        self._answered: asyncio.Future[Answer] | None = None
        self._timeout = 0.0
        self._status = self._max_bytes = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._coding = ""
        self._chunks: list[bytes] = []
        self._size = self._reserved = self._received = self._head_size = self._interim = 0
        self._is_sent = self._is_complete = self._has_noted = False
        self._lines: list[tuple[bytes, bytes]] = []  # the header lines or trailers that are coming in
        self._transport: asyncio.Transport  # from connection_made on, before anybody has this object
        self._check_input: Callable[[], list[Any]]
        self._reusable = True
        self._deadline = Deadline(self._time_out)

    def is_usable(self) -> bool:
        """Return whether a request may be sent, as far as the loop knows."""
        return self._reusable and not self._transport.is_closing()

    def begin(self, request: bytes, deadline: float, timeout: float, max_bytes: int) -> asyncio.Future[Answer]:
        """Send a request, on a kept connection at the end of this turn of the loop (decision 44). Return the future of
        its answer, at the latest at ``deadline`` by the loop's clock, or an :class:`OutboundError`. Then call
        :meth:`end`."""
        answered = self._answered = self._loop.create_future()
        self._max_bytes, self._timeout = max_bytes, timeout
        self._status = self._size = self._received = self._head_size = self._interim = 0
        self._is_sent, self._is_complete = not self.idle_since, False
        self._deadline.expire_in(deadline - self._loop.time())
        if self._is_sent:
            self._transport.write(request)
        else:
            self._writes.add(self._send, request)
        return answered

    def _send(self, request: bytes) -> None:
        if self._answered is None or self._answered.done():  # it timed out, or was cancelled
            return
        # The last look: the other side may have closed, or sent unasked bytes, and the loop does not know it yet.
        if not self.is_usable() or self._check_input():
            self._fail(response.EndedUnsent())
        else:
            self._is_sent = True
            self._transport.write(request)

    def end(self) -> None:
        """End an exchange. Close the connection if it ends early, or is the last one on it."""
        self._answered = self._deadline.due = None
        self._is_sent = False
        self._chunks.clear()
        if self._reserved:
            self._reserve(-self._reserved)
            self._reserved = 0
        is_unsent = self._transport.get_write_buffer_size() > 0  # the answer came before it read the request
        if is_unsent or not self._is_complete or not self._reusable:
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
        if not self._is_sent or self._is_complete:
            # A service may say that it waited for too long, and ends the connection (RFC 9110 §15.5.9).
            if not data.startswith((b"HTTP/1.1 408 ", b"HTTP/1.0 408 ")):
                self._on_unsolicited()
            self.abort()
            return
        status, size = self._status, len(data)
        self._received += size
        self._head_size += size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(response.BadHttp("status 101"))
        except httptools.HttpParserError as error:
            if self._is_complete:  # the bytes behind the answer are no HTTP
                self._note_unsolicited()
            else:
                # A fault of a callback of ours is the cause; the parser's own faults have none.
                cause = error.__context__
                self._fail(cause if isinstance(cause, OutboundError) else response.BadHttp("the answer is no HTTP"))
        if self._is_complete:
            self._finish(self._answered)
        elif self._head_size > MAX_HEAD:
            self._fail(response.BadHttp("its trailers are too large" if self._status else "its head is too large"))
        elif len(self._lines) > MAX_HEADERS:
            self._fail(response.BadHttp(_BAD_LINES))
        elif self._status != status and self._will_be_too_large():
            self._fail(self._too_large())

    def connection_lost(self, exc: Exception | None) -> None:
        self._reusable = False
        self._deadline.close()
        self._on_close(self)
        answered = self._answered
        if answered is None or answered.done():
            return
        # A refused client certificate shows only on the first read with TLS 1.3, after the handshake is over for us.
        if isinstance(exc, ssl.SSLError) and CERTIFICATE_ALERT.search(exc.reason or ""):
            self._fail(response.ConnectFailed(tls_reason(exc, self._tls)))
        elif exc is None and self._status and _fields(self._headers).keys().isdisjoint(_FRAMING):
            self._finish(answered)  # the end of the connection is the end of the body (RFC 9112 §6.3 rule 8)
        else:
            ended = response.Interrupted("the connection ended before the answer did")
            self._fail(ended if self._is_sent else response.EndedUnsent())

    # The parser calls these.

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._note_unsolicited()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines.append((name, value))
        if len(name) in _NOTED_SIZES and name.lower() in _NOTED:
            self._has_noted = True

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return
        headers, self._lines = self._lines, []
        # No line is too long where all that came is not.
        if self._received > MAX_LINE or len(headers) > MAX_HEADERS:
            _check_lines(headers)
        status = self._parser.get_status_code()
        if not 200 <= status <= 599:
            if 100 <= status < 200 and status != 101:  # interim: the answer follows (RFC 9110 §15.2)
                self._head_size = 0
                self._interim += 1
                if self._interim <= MAX_INTERIM:
                    return
            raise response.BadHttp(f"status {status}" if self._interim <= MAX_INTERIM else "too many interim responses")
        self._status, self._headers = status, headers
        self.patience, self._coding = KEEPALIVE, ""
        if self._has_noted:
            self._has_noted = False
            self._read_noted(_fields(headers))

    def on_body(self, data: bytes) -> None:
        if self._is_complete:
            return
        self._head_size = 0
        size = self._size = self._size + len(data)
        if size > CHUNK or size > self._max_bytes:
            if size > self._max_bytes or (not self._reserved and self._will_be_too_large()):
                raise self._too_large()
            self._keep(size - self._reserved)
        self._chunks.append(data)

    def on_message_complete(self) -> None:
        if self._status and not self._is_complete:
            if self._lines:
                _check_lines(self._lines)
                self._lines = []  # trailers must not change the head (RFC 9110 §6.5.1)
            self._is_complete = True
            self._reusable = self._reusable and self._parser.should_keep_alive()

    def _read_noted(self, fields: dict[bytes, bytes]) -> None:
        if fields.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise response.BadHttp("its transfer encoding is not chunked alone")
        self._coding = fields.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        if told := _KEEP_ALIVE.search(fields.get(b"keep-alive", b"")):
            self.patience = min(KEEPALIVE, float(told[1]) / 2)

    def _will_be_too_large(self) -> bool:
        """Return whether the head says that the body is larger than allowed."""
        length = _fields(self._headers).get(b"content-length", b"")
        return length.isdigit() and int(length) > self._max_bytes

    def _keep(self, size: int) -> None:
        """Reserve room for bytes of the answer. Raises :class:`NoRoom`."""
        if not self._reserve(size):
            raise response.NoRoom("too many answers are held")
        self._reserved += size

    def _finish(self, answered: asyncio.Future[Answer]) -> None:
        if answered.done():
            return
        chunks = self._chunks
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if body and self._coding in _CODINGS:
            try:
                body = self._decompressed(body)
            except OutboundError as error:
                self._fail(error)
                return
        answered.set_result(Answer(self._status, self._headers, body))

    def _decompressed(self, body: bytes) -> bytes:
        """Return the whole body, of any number of gzip members. Its size is bounded while it grows."""
        parts: list[bytes] = []
        size = 0
        try:
            while body:
                # Some servers send deflate without the zlib header that RFC 9110 §8.4.1.2 asks for.
                is_raw = self._coding == "deflate" and body[0] & 0x0F != zlib.DEFLATED
                inflater = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else _ANY_ZLIB)
                if len(parts) == _MOST_MEMBERS:
                    raise response.BadHttp("its compressed body has too many members")
                part = inflater.decompress(body, self._max_bytes - size + 1)
                size += len(part)
                if size > self._max_bytes:
                    raise self._too_large()
                if not inflater.eof:
                    raise response.BadHttp("its compressed body is incomplete")
                self._keep(len(part))
                parts.append(part)
                body = inflater.unused_data
        except zlib.error as error:
            raise response.BadHttp(f"its body is not {self._coding}") from error
        return b"".join(parts)

    def _fail(self, error: OutboundError) -> None:
        self._reusable = False
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error.with_traceback(None))  # its frames would keep parts of the body

    def _too_large(self) -> response.AnswerTooLarge:
        return response.AnswerTooLarge(f"larger than {self._max_bytes} bytes")

    def _note_unsolicited(self) -> None:
        self._reusable = False
        self._on_unsolicited()

    def _time_out(self) -> None:
        self._fail(response.DeadlinePassed(f"no complete answer within {self._timeout:g} s"))


def _check_lines(lines: list[tuple[bytes, bytes]]) -> None:
    """Raise :class:`BadHttp` for too many lines, or one that is too long."""
    if len(lines) > MAX_HEADERS or max(map(len, map(b"".join, lines)), default=0) > MAX_LINE:
        raise response.BadHttp(_BAD_LINES)


def _fields(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the first value of each name in lower case."""
    return {name.lower(): value for name, value in reversed(headers)}
