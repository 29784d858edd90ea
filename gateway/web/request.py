"""The requests of one connection: read from its bytes (RFC 9112), and refused where two readers may read them
differently. Each has a head, and a body as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Final

import httptools
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from gateway.errors import MalformedHttp
from gateway.web.wire import Wire

HTTP10: Final = "1.0"
MAX_HEAD: Final = 64 * 1024
"""Bytes of a head, or of trailers, that are not complete. Lines and their number are bounded, but allow a megabyte
together."""
MAX_LINE: Final = 8190
"""Bytes of the target, and of a header's name and value."""
MAX_HEADERS: Final = 128
_FRAMING: Final = ("content-length", "transfer-encoding")
_ONCE: Final = (
    *_FRAMING, "content-location", "content-range", "content-type", "etag", "host", "max-forwards", "server",
    "user-agent",
)  # fmt: skip
"""Headers of one value (RFC 9110 §5.3). Of two, programs would read either the first or the last."""
_NO_HTTP: Final = "The request is not HTTP/1.1 (RFC 9112)"
_TOO_LONG: Final = "The request line or a header is too long"
_TOO_LARGE: Final = f"The head of the request is larger than {MAX_HEAD // 1024} KiB"
_NO_QUERY: Final[MultiMapping[str]] = CIMultiDict()
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_UNREAD: Final = 128 * 1024
"""Bytes of a body that may wait until somebody reads them. Then the client waits."""


class HttpRequest:
    """Hold one request. ``version`` is "1.1" or "1.0", ``keep_alive`` whether the client wants the connection to go on
    after the answer. ``is_whole`` tells whether all of the body has come, ``has_answer`` whether the answer has begun,
    ``is_answered`` whether all of it is on its way.
    """

    __slots__ = (
        "__dict__",  # of the cached URL, which most requests need not have
        "_arrived", "_is_broken", "_is_dropped", "_parts", "_unread", "fault", "has_answer", "headers", "is_answered",
        "is_begun", "is_stream", "is_whole", "keep_alive", "method", "path", "safe_path", "target", "version", "wire",
    )  # fmt: skip

    def __init__(
        self, wire: Wire, method: str, target: str, version: str, headers: MultiMapping[str], keep_alive: bool
    ) -> None:
        self.wire = wire
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.keep_alive = keep_alive
        self.fault: MalformedHttp | None = None
        """Fault of its framing: then it is refused."""
        self.is_begun = self.is_whole = self.has_answer = self.is_answered = self.is_stream = False
        self._parts: list[bytes] = []
        self._unread = 0
        self._is_broken = self._is_dropped = False
        self._arrived: asyncio.Future[None] | None = None
        if target[:1] == "/" and "%" not in target and "?" not in target and "#" not in target:
            self.path = self.safe_path = target
        else:
            self.path, self.safe_path = self.url.path, self.url.path_safe

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.path[:100]!r}>"

    @cached_property
    def url(self) -> URL:
        """Return the target as a URL; its parts are encoded as they came. Raise :class:`MalformedHttp` where it is none
        (RFC 9112 §3.2)."""
        target = self.target
        try:
            if self.method == "CONNECT":
                url = URL.build(authority=target, encoded=True)
            elif target[:1] == "/":
                path, _, query = target.partition("#")[0].partition("?")
                return URL.build(path=path, query_string=query, encoded=True)
            elif target == "*" and self.method == "OPTIONS":
                return URL(target, encoded=True)
            else:
                url = URL(target, encoded=True)
            if (url.raw_host and "//" in target) or self.method == "CONNECT":
                return url
        except ValueError:
            pass
        raise MalformedHttp("The target of the request is not a URL")

    @property
    def query(self) -> MultiMapping[str]:
        return self.url.query if "?" in self.target else _NO_QUERY

    @property
    def host(self) -> str:
        """Return the host that the target names, else the Host header (RFC 9112 §3.2.2). Where HTTP/1.0 has none, that
        is the address at which the client arrived."""
        host = self.headers.get("Host")
        if self.target[:1] != "/":
            host = self.url.raw_authority or host
        if host is not None:
            return host
        address = self.wire.transport.get_extra_info("sockname")
        return "" if address is None else f"{address[0]}:{address[1]}"

    # The body.

    def feed(self, part: bytes) -> None:
        """Take a part of the body."""
        if self._is_dropped:
            return
        self._parts.append(part)
        self._unread += len(part)
        if self._unread > _UNREAD:
            self.wire.pause_reading()
        if self._arrived is not None:
            self._wake()

    def end(self) -> bool:
        """Note that the body is whole. Return whether it was dropped, since the answer did not need it."""
        self.is_whole = True
        if self._unread > _UNREAD:  # what follows is bounded elsewhere, and perhaps nobody takes this
            self.wire.resume_reading()
        if self._arrived is not None:
            self._wake()
        return self._is_dropped

    def fail(self) -> None:
        """Note that the rest of the body cannot be read, nor another request."""
        self._is_broken = True
        self.keep_alive = False
        if self._arrived is not None:
            self._wake()

    def drop_body(self) -> None:
        """Forget what came of the body, and what comes."""
        self._is_dropped = True
        self.take()

    def take(self) -> bytes:
        """Return what has come of the body and was not taken yet."""
        parts = self._parts
        if len(parts) == 1:  # nearly always
            part = parts.pop()
        else:
            part = b"".join(parts)
            parts.clear()
        if self._unread > _UNREAD:
            self.wire.resume_reading()
        self._unread = 0
        return part

    async def read(self) -> bytes:
        """Return the next part of the body as soon as there is one, ``b""`` after the last. Raise
        :class:`ConnectionResetError` where the rest does not come."""
        while not self._parts and not self.is_whole:
            if self._is_broken:
                raise ConnectionResetError("the body is incomplete")
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        return self.take()

    def ask_for_body(self) -> None:
        """Send 100 Continue where the client holds its body back until it is asked (RFC 9110 §10.1.1).

        Call it once the head is accepted: who is refused keeps its body.
        """
        if self.version != HTTP10 and "Expect" in self.headers:
            self.send_interim()

    def send_interim(self) -> None:
        """Send an interim answer, which every client of HTTP/1.1 must accept (RFC 9110 §15.2)."""
        self.wire.transport.write(_CONTINUE)

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


class RequestReader:
    """Read the requests of one client. ``begin`` gets each of them once its head is read; ``end`` is called where a
    body becomes whole after the answer. ``in_head`` tells whether a head has begun and is not complete."""

    __slots__ = (
        "_begin",
        "_end",
        "_names",
        "_parser",
        "_skips",
        "_target",
        "_unfinished",
        "_values",
        "_wire",
        "in_head",
        "request",
    )

    def __init__(self, wire: Wire, begin: Callable[[HttpRequest], None], end: Callable[[], None]) -> None:
        self._wire = wire
        self._begin = begin
        self._end = end
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._unfinished = 0  # bytes since the last end of a head, part of a body or end of one
        self._skips = False
        self.in_head = False
        self.request: HttpRequest | None = None
        """The request whose body is not whole yet."""

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Raise :class:`MalformedHttp`."""
        self._unfinished += len(data)
        try:
            while data:
                try:
                    self._parser.feed_data(data)
                    break
                except httptools.HttpParserUpgrade as upgrade:
                    data = data[upgrade.args[0] :]
                self._continue_body()
        except httptools.HttpParserError as error:
            cause = error.__context__  # a fault of ours; the parser's own faults have none
            raise cause if isinstance(cause, MalformedHttp) else MalformedHttp(_NO_HTTP) from None
        if self._unfinished > MAX_HEAD:
            raise MalformedHttp(_TOO_LARGE)

    def close(self) -> None:
        """Read no more. Parser and reader refer to each other: they are parted, so that reference counts free both."""
        del self._parser

    # The parser calls these.

    def on_message_begin(self) -> None:
        self.in_head = True

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self._names.append(name)
        self._values.append(value)

    def on_headers_complete(self) -> None:
        self.in_head = False
        parser, target, names, values = self._parser, self._target, self._names, self._values
        self._target, self._names, self._values = b"", [], []
        if self._skips:  # the head that :meth:`_continue_body` made
            self._skips = False
            return
        self._unfinished = 0
        if len(target) > MAX_LINE:
            raise MalformedHttp(_TOO_LONG)
        version = parser.get_http_version()
        request = self.request = HttpRequest(
            self._wire,
            parser.get_method().decode("ascii"),
            target.decode("utf-8", "surrogateescape"),
            version,
            _headers(names, values, version),
            parser.should_keep_alive(),
        )
        if parser.should_upgrade():
            request.keep_alive = request.keep_alive and request.method != "CONNECT"
            self._skips = "Content-Length" in request.headers or "Transfer-Encoding" in request.headers
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
        """Read the body of a request that would upgrade, but does not (RFC 9110 §7.8). Java's client sends such."""
        if not self._skips or self.request is None:
            return
        framing = [f"{name}: {value}\r\n" for name, value in self.request.headers.items() if name.lower() in _FRAMING]
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{''.join(framing)}\r\n".encode())


def _headers(names: list[bytes], values: list[bytes], version: str) -> CIMultiDict[str]:
    """Return the headers of a request. Raise :class:`MalformedHttp`."""
    # No line feed is in them. One text is decoded and parted in a fifth of the time of many small ones.
    joined = b"\n".join(values) + b"\n"
    if b" \n" in joined or b"\t\n" in joined:
        joined = b"\n".join(value.rstrip(b" \t") for value in values) + b"\n"
    named = b"\n".join(names).decode("ascii")
    if len(named) + len(joined) > MAX_LINE and max(map(len, map(bytes.__add__, names, values))) > MAX_LINE:
        raise MalformedHttp(_TOO_LONG)
    headers = CIMultiDict(zip(named.split("\n"), joined.decode("utf-8", "surrogateescape").split("\n"), strict=False))
    if len(names) > MAX_HEADERS or (version != HTTP10 and "Host" not in headers):
        raise MalformedHttp(_NO_HTTP)
    lower = named.lower().split("\n")
    if len(set(lower)) != len(lower) and any(lower.count(name) > 1 for name in _ONCE):
        raise MalformedHttp(_NO_HTTP)
    return headers


def framing_fault(request: HttpRequest) -> MalformedHttp | None:
    """Return what is wrong with a request whose end a proxy in front may have seen elsewhere (request smuggling).

    RFC 9112 §6.1: a server treats Transfer-Encoding with HTTP/1.0 as faulty framing.
    """
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
