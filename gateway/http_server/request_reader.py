"""Read the requests of one connection from its bytes (RFC 9112), and refuse what two readers may read differently."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import httptools
from multidict import CIMultiDict, istr

from gateway.errors import MalformedHttp
from gateway.http_server.request import HTTP10, ClientConnection, HttpRequest

MAX_HEAD: Final = 64 * 1024
"""Bytes of an incomplete head, or of trailers. Lines and their number are limited, but allow a megabyte together."""
MAX_LINE: Final = 8190
"""Bytes of the target, and of a header's name and value."""
MAX_HEADERS: Final = 128
_FRAMING: Final = ("content-length", "transfer-encoding")
_ONCE: Final = (
    *_FRAMING, "content-location", "content-range", "content-type", "etag", "host", "max-forwards", "server",
    "user-agent",
)  # fmt: skip
"""Headers of one value (RFC 9110 §5.3). Of two values, some programs read the first, others the last."""
_NO_HTTP: Final = "The request is not HTTP/1.1 (RFC 9112)"
_TOO_LONG: Final = "The request line or a header is too long"
_TOO_LARGE: Final = f"The head of the request is larger than {MAX_HEAD // 1024} KiB"
_BARE: Final = re.compile(rb"[^\r]\n")
"""A line feed alone. Programs read it differently: here, its head would never end."""
_EMPTY_LINES: Final = re.compile(rb"\A(?:\r\n)+")
_END: Final = b"\r\n\r\n"
_CR, _LF = ord("\r"), ord("\n")
_FIRST, _LAST = ord("!"), ord("~")
_FRAGMENT: Final = ord("#")  # of bytes, a number is looked for at a fifth of the cost of bytes
_LENGTH: Final[str] = istr("Content-Length")  # looked up in half the time of a text
_HOST: Final[str] = istr("Host")
_PROTOCOL: Final = re.compile(rb"HTTP/[0-9]\.[0-9]\r\n")
_USUAL_NAMES: Final = 512  # bytes of all names of a head, up to which they are remembered
_USUAL_HEAD, _USUAL_HEADERS = 2048, 32  # bytes and headers of a head up to which its connection remembers it
_LINE_OF_LENGTH: Final = b"\r\ncontent-l"
_CHUNKED: Final = -1


class RequestReader:
    """Read the requests of one client. ``begin`` is called with each once its head is read, ``end`` if a body becomes
    whole after the response. The parser is fed whole heads, and nothing behind the end of a request, so that clients
    fill little memory; ``half`` is the beginning of an incomplete head."""

    __slots__ = (
        "_after", "_before", "_begin", "_connection", "_end", "_expects_head", "_head", "_headers", "_left", "_line",
        "_names", "_parser", "_skips", "_tail", "_unfinished", "_values", "half", "request",
    )  # fmt: skip

    def __init__(
        self, connection: ClientConnection, begin: Callable[[HttpRequest], None], end: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._begin = begin
        self._end = end
        self._parser = httptools.HttpRequestParser(self)
        self._line = ("", "", "")  # method, target, version
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._expects_head = False
        self._head = 0  # bytes of the head
        self._left = _CHUNKED  # bytes of the body that are still to come
        self._tail = b""  # the last bytes of a chunked body, in which its end may begin
        self._unfinished = 0  # bytes of a chunked body since its last part
        self._skips = False
        self._headers: CIMultiDict[str] | None = None  # of the last request, if its head may come again
        self._before = self._after = b""  # that head before the digits of its Content-Length, and behind them
        self.half = b""
        self.request: HttpRequest | None = None  # the request whose body is not whole yet

    @property
    def held(self) -> int:
        """Return the bytes of a head whose request is not complete, and of its trailers."""
        return len(self.half) + self._unfinished + (0 if self.request is None else self._head)

    def feed(self, data: bytes) -> bytes:
        """Read the next bytes to the end of a request, and return those behind it. Raise :class:`MalformedHttp`."""
        try:
            if self.request is None:
                if self._headers is not None and self._reads_again(data, self._headers):
                    return b""
                data = self._read_head(data)
            if data and self.request is not None and self.request.fault is None:
                data = self._read_chunks(data) if self._left == _CHUNKED else self._read_counted(data)
        except httptools.HttpParserError as error:
            cause = error.__context__  # a fault of ours; the parser's own faults have none
            raise cause if isinstance(cause, MalformedHttp) else MalformedHttp(_NO_HTTP) from None
        return data

    def close(self) -> None:
        """Read no more. Parser and reader refer to each other: without this, reference counts would free neither."""
        del self._parser

    def _read_head(self, data: bytes) -> bytes:
        """Read a head once all of it has come. Return the bytes behind it."""
        start = 0
        if self.half:
            start, data = max(0, len(self.half) - 3), self.half + data
        if data[0] == _CR:  # RFC 9112 §2.2: empty lines before a request are ignored
            start, data = 0, _EMPTY_LINES.sub(b"", data, 1)
            if data in (b"", b"\r"):
                self.half = data
                return b""
        end = data.find(_END, start) + len(_END)
        is_whole = end >= len(_END)
        # A client of another protocol is refused after its first line, one of TLS after its first byte.
        if not _FIRST <= data[0] <= _LAST:
            raise MalformedHttp(_NO_HTTP)
        if is_whole or b"\n" in data:
            self._line = _first_line(data)
        if (end if is_whole else len(data)) > MAX_HEAD:
            raise MalformedHttp(_TOO_LARGE)
        if not is_whole:
            if _BARE.search(data, max(0, start - 1)):
                raise MalformedHttp(_NO_HTTP)
            self.half = data
            return b""
        self.half, self._expects_head, self._head = b"", True, end
        behind = len(data) - end
        if is_alone := behind > 0:  # is a body of that length behind it? Then the parser gets both at once
            at = data.find(b"ength: %d\r\n" % behind, 0, end)
            is_alone = at > 0 and data[at - len(_LINE_OF_LENGTH) : at].lower() == _LINE_OF_LENGTH
        try:
            self._parser.feed_data(data if is_alone or not behind else data[:end])
        except httptools.HttpParserUpgrade:
            self._continue_body()
            is_alone = False
        if self._expects_head:  # it ends elsewhere for the parser
            raise MalformedHttp(_NO_HTTP)
        self._headers = self._headers if is_alone and end <= _USUAL_HEAD else None
        around = (b"", b"") if self._headers is None else (data[: at + 7], data[data.find(b"\r", at) : end])
        self._before, self._after = around
        return b"" if is_alone else data[end:]

    def _reads_again(self, data: bytes, headers: CIMultiDict[str]) -> bool:
        """Read a whole request whose head is the last one but for the length of its body, as clients repeat them: the
        parser has judged it. Return False for another one, of which nothing is read."""
        body = data[data.find(_END) + len(_END) :]
        if self.half or not data.startswith(b"%b%d%b" % (self._before, len(body), self._after)):
            return False
        if headers[_LENGTH] != (length := str(len(body))):
            headers = headers.copy()
            headers[_LENGTH] = length
        request = HttpRequest(self._connection, *self._line, headers, keep_alive=True)
        self._begin(request)
        request.feed(body)
        if request.end():
            self._end()
        return True

    def _read_counted(self, data: bytes) -> bytes:
        left = self._left
        self._left = max(0, left - len(data))
        self._parser.feed_data(data if len(data) <= left else data[:left])
        return data[left:]

    def _read_chunks(self, data: bytes) -> bytes:
        """Read up to each empty line: the parser does not say where it stops, and a chunked body ends with one."""
        at, data = len(self._tail), self._tail + data
        start = 0
        while at < len(data) and self.request is not None:
            end = data.find(_END, start) + len(_END)
            start = end if end >= len(_END) else len(data)
            self._unfinished += start - at
            self._parser.feed_data(data[at:start])
            at = start
        if self._unfinished > MAX_HEAD or len(self._names) > MAX_HEADERS:
            raise MalformedHttp(_TOO_LARGE)
        self._tail = data[-3:]
        return data[at:]

    # The parser calls these.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._names.append(name)
        self._values.append(value)

    def on_headers_complete(self) -> None:
        parser, names, values = self._parser, self._names, self._values
        self._names, self._values = [], []
        if self._skips:  # the head that :meth:`_continue_body` made
            self._skips = False
            return
        if not self._expects_head:
            raise MalformedHttp(_NO_HTTP)
        self._expects_head = False
        method, target, version = self._line
        headers, is_plain = _headers(names, values)
        if version != HTTP10 and _HOST not in headers:
            raise MalformedHttp(_NO_HTTP)
        request = HttpRequest(self._connection, method, target, version, headers, parser.should_keep_alive())
        self.request = request
        length = headers.get(_LENGTH)
        self._left, self._tail = _CHUNKED if length is None else int(length), b""
        if parser.should_upgrade():
            request.keep_alive = request.keep_alive and request.method != "CONNECT"
            self._skips = length is not None or "Transfer-Encoding" in headers
        self._headers = headers if request.keep_alive and len(names) <= _USUAL_HEADERS else None
        if not is_plain or version != "1.1":
            request.fault, self._headers = framing_fault(request), None
        self._begin(request)

    def on_body(self, part: bytes) -> None:
        self._unfinished = 0
        if self.request is not None:
            self.request.feed(part)

    def on_message_complete(self) -> None:
        if self._skips:  # the parser leaves out the body of a request that would upgrade
            return
        self._unfinished = 0
        if self._names:  # trailers must not change the head (RFC 9110 §6.5.1)
            if len(self._names) > MAX_HEADERS:
                raise MalformedHttp(_NO_HTTP)
            self._names, self._values = [], []
        request, self.request = self.request, None
        if request is not None and request.end():
            self._end()

    def _continue_body(self) -> None:
        """Read the body of a request for an upgrade, which it does not get (RFC 9110 §7.8). Java's client sends one."""
        if not self._skips or self.request is None or self.request.fault is not None:
            return
        framing = [f"{name}: {value}\r\n" for name, value in self.request.headers.items() if name.lower() in _FRAMING]
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{''.join(framing)}\r\n".encode("utf-8", "surrogateescape"))


def _first_line(head: bytes) -> tuple[str, str, str]:
    """Return method, target and version. Raise :class:`MalformedHttp` unless one blank is between them, and for a
    fragment (RFC 9112 §3). The parser judges the rest: it accepts ASCII alone."""
    parts = head.split(b" ", 2)
    if len(parts) == 3:
        method, target, rest = parts
        is_usual = rest[:10] == b"HTTP/1.1\r\n"
        # To the parser, a line that ends behind the target is HTTP/0.9.
        if target and _FRAGMENT not in target and _LF not in target and (is_usual or _PROTOCOL.match(rest)):
            if len(target) > MAX_LINE:
                raise MalformedHttp(_TOO_LONG)
            version = "1.1" if is_usual else rest[5:8].decode()
            return method.decode("latin-1"), target.decode("latin-1"), version
    raise MalformedHttp(_NO_HTTP)


def _headers(names: list[bytes], values: list[bytes]) -> tuple[CIMultiDict[str], bool]:
    """Return the headers, and whether only Content-Length says how the body is sent. Raise :class:`MalformedHttp`."""
    # No line feed is in them. One text is decoded and parted in a fifth of the time of many small ones.
    named, joined = b"\n".join(names), b"\n".join(values) + b"\n"
    if len(named) + len(joined) > MAX_LINE and max(map(len, map(bytes.__add__, names, values))) > MAX_LINE:
        raise MalformedHttp(_TOO_LONG)
    text = joined.decode("utf-8", "surrogateescape")
    if " \n" in text or "\t" in text:
        text = "\n".join([value.rstrip(" \t") for value in text.split("\n")])
    known, is_plain = _header_names(named) if len(named) <= _USUAL_NAMES else _header_names.__wrapped__(named)
    return CIMultiDict(zip(known, text.split("\n"))), is_plain  # noqa: B905, there is one empty value more


@lru_cache(128)
def _header_names(named: bytes) -> tuple[tuple[str, ...], bool]:
    """Return names of headers, which a client repeats, and whether :func:`framing_fault` needs none of them."""
    names = named.decode("ascii").split("\n") if named else []  # a head of HTTP/1.0 may have none
    lower = named.decode("ascii").lower().split("\n")
    if len(names) > MAX_HEADERS or (len(set(lower)) != len(lower) and any(lower.count(name) > 1 for name in _ONCE)):
        raise MalformedHttp(_NO_HTTP)
    return tuple(map(istr, names)), "transfer-encoding" not in lower and "content-encoding" not in lower


def framing_fault(request: HttpRequest) -> MalformedHttp | None:
    """Return what is wrong with a request if a proxy in front may see another end of it (RFC 9112 §6.1, smuggling)."""
    version, headers = request.version, request.headers
    if version not in ("1.1", HTTP10):
        return MalformedHttp("Only HTTP/1.1 and HTTP/1.0 are served")
    coding = headers.get("Transfer-Encoding")
    if coding is not None and version == HTTP10:
        return MalformedHttp("HTTP/1.0 has no Transfer-Encoding: send Content-Length, or HTTP/1.1")
    if coding is not None and coding.lower() != "chunked":
        # The parser accepts "gzip, chunked" and leaves the body compressed (RFC 9112 §6.1: refuse an unknown coding).
        return MalformedHttp("Transfer-Encoding must be chunked")
    if len(headers.getall("Content-Encoding", ())) > 1:
        return MalformedHttp("Content-Encoding must be given once")
    return None
