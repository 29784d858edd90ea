"""Hold one request of a client: its head, and its body as it comes (RFC 9112 §3, §6)."""

import asyncio
from functools import cached_property
from typing import Final, Protocol

from multidict import CIMultiDict, MultiMapping
from yarl import URL

from gateway.errors import MalformedHttp
from gateway.http_server.held_bytes import HeldBytes

HTTP10: Final = "1.0"
_NO_QUERY: Final[MultiMapping[str]] = CIMultiDict()
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_MAX_UNREAD: Final = 32 * 1024
"""Bytes of a body that may wait until the handler reads them. Beyond them, reading from the client pauses."""
_PART: Final = 48  # bytes that Python takes for each part of a body beside its text: chunks may have a byte each


class ClientConnection(Protocol):
    """The connection of a request: ours, or that of another server which runs our handler (gateway/aiohttp_app.py)."""

    transport: asyncio.Transport
    held: HeldBytes
    remote: str
    """The client's address."""
    owner: str
    """The caller whose response is sent, "" until that is known. See :class:`HeldBytes`."""
    counted: int
    """Bytes sent ahead that are counted now, see :class:`gateway.http_server.handler.SentAhead`."""
    is_draining: bool
    """True if the connection closes after the next response, since its port closes."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def count_ahead(self) -> None:
        """Count anew what the client has sent, and what was not read yet."""
        ...

    async def drain(self) -> None:
        """Return once the kernel has all bytes. Raise :class:`ConnectionResetError` if the client is gone."""
        ...


class HttpRequest:
    """Hold one request. ``version`` is "1.1" or "1.0", ``keep_alive`` whether the connection goes on after the
    response, ``is_whole`` whether all of the body has come."""

    __slots__ = (
        "__dict__",  # of the cached URL, which most requests need not have
        "_arrived", "_broken", "_is_dropped", "_parts", "connection", "fault", "headers", "is_begun", "is_stream",
        "is_whole", "keep_alive", "method", "path", "response_begun", "response_sent", "safe_path", "target", "unread",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        connection: ClientConnection,
        method: str,
        target: str,
        version: str,
        headers: MultiMapping[str],
        keep_alive: bool,
    ) -> None:
        self.connection = connection
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.keep_alive = keep_alive
        self.fault: MalformedHttp | None = None  # fault of its framing. A request with a fault is refused.
        self.is_begun = self.is_whole = self.is_stream = self.response_begun = self.response_sent = False
        self._parts: list[bytes] = []
        self.unread = 0
        self._is_dropped = False
        self._broken: Exception | None = None
        self._arrived: asyncio.Future[None] | None = None
        if target[:1] == "/" and "%" not in target and "?" not in target and "#" not in target:
            self.path = self.safe_path = target
        else:
            self.path, self.safe_path = self.url.path, self.url.path_safe

    @cached_property
    def url(self) -> URL:
        """Return the target as a URL, encoded as it came. Raise :class:`MalformedHttp` (RFC 9112 §3.2)."""
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
            is_known = self.method == "CONNECT" or target == "*" or (url.raw_host and url.scheme in ("http", "https"))
            if is_known and "@" not in url.raw_authority:  # RFC 9110 §4.2.4
                return url
        except ValueError:
            pass
        raise MalformedHttp("The target of the request is not a URL")

    @property
    def query(self) -> MultiMapping[str]:
        return self.url.query if "?" in self.target else _NO_QUERY

    @property
    def host(self) -> str:
        """Return the target's host, else the Host header (RFC 9112 §3.2.2), else, in HTTP/1.0, our own address."""
        host = self.headers.get("Host")
        if self.target[:1] != "/":
            host = self.url.raw_authority or host
        if host is not None:
            return host
        address = self.connection.transport.get_extra_info("sockname")
        return "" if address is None else f"{address[0]}:{address[1]}"

    # The body.

    def feed(self, part: bytes) -> None:
        if self._is_dropped:
            return
        self._parts.append(part)
        self.unread += len(part) + _PART
        if self.unread > _MAX_UNREAD:
            self.connection.pause_reading()
        if self._arrived is not None:
            self._wake()

    def end(self) -> bool:
        """Note that the body is whole. Return whether it was dropped, since the response did not need it."""
        self.is_whole = True
        if self.unread > _MAX_UNREAD:  # later requests have their own limit (MAX_AHEAD), and this body may stay unread
            self.connection.resume_reading()
        if self._arrived is not None:
            self._wake()
        return self._is_dropped

    def fail(self, error: Exception | None = None) -> None:
        """Note that neither the rest of the body nor another request can be read. :meth:`read` raises ``error``."""
        self._broken = error or ConnectionResetError("the body is incomplete")
        self.keep_alive = False
        if self._arrived is not None:
            self._wake()

    def drop_body(self) -> None:
        """Drop what came of the body, and what still comes."""
        self._is_dropped = True
        self.take()

    def take(self) -> bytes:
        """Return what has come of the body since the last read, without waiting."""
        parts = self._parts
        if len(parts) == 1:  # nearly always
            part = parts.pop()
        else:
            part = b"".join(parts)
            parts.clear()
        if self.unread > _MAX_UNREAD and not self.is_whole:  # else :meth:`end` did so
            self.connection.resume_reading()
        self.unread = 0
        if self.connection.counted:
            self.connection.count_ahead()
        return part

    async def read(self) -> bytes:
        """Return the next part of the body as soon as there is one, ``b""`` after the last. Raise
        :class:`ConnectionResetError` if the rest does not come, :class:`~gateway.errors.Overloaded` without room."""
        while not self._parts and not self.is_whole:
            if self._broken is not None:
                raise self._broken
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        return self.take()

    def ask_for_body(self) -> None:
        """Send 100 Continue if the client waits for it (RFC 9110 §10.1.1), once the head is accepted."""
        if self.version != HTTP10 and "Expect" in self.headers:
            self.send_interim()

    def send_interim(self) -> None:
        """Send an interim response, which every client of HTTP/1.1 must accept (RFC 9110 §15.2)."""
        self.connection.transport.write(_CONTINUE)

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
