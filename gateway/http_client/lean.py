"""The lean HTTP client: HTTP/1.1 over TCP and TLS with kept connections, for a fraction of :class:`Outbound`'s time.

It knows no proxies. The queue in front of it bounds the exchanges at a time.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

import structlog
from yarl import URL

from gateway.concurrency.turns import EndOfTurnQueue
from gateway.http_client import response
from gateway.http_client.connecting import Connector, Peer
from gateway.http_client.lean_connection import LeanConnection
from gateway.http_client.response import CONNECT_TIMEOUT, Answer, ConnectFailed
from gateway.http_client.tls import TlsFiles

MAX_IDLE: Final = 100
"""Idle connections that are kept for one origin."""
_ACCEPT_ENCODING: Final = "gzip, deflate"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN: Final = "a header with a character that HTTP forbids"
_SWEEP: Final = 1.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Origin:
    """Hold the connections to one origin. ``idle`` has the last used one last, which is the next to be used."""

    peer: Peer
    idle: list[LeanConnection] = field(default_factory=list)
    sent_unsolicited: bool = False
    """Set once the server has sent bytes that belong to no response. snapserver 0.26 answers each POST twice: on a kept
    connection the second answer could be taken for that to the next request."""

    def take(self, now: float) -> LeanConnection | None:
        """Return a connection that can be used, and close those that cannot."""
        while self.idle:
            connection = self.idle.pop()
            is_fresh = now - connection.idle_since < connection.patience
            if not self.sent_unsolicited and is_fresh and connection.is_usable():
                return connection
            connection.abort()
        return None

    def note_unsolicited(self) -> None:
        if not self.sent_unsolicited:
            self.sent_unsolicited = True
            log.warning("the backend sends more than its answers; from now on each call has a connection of its own")


@dataclass(frozen=True, slots=True)
class _Target:
    """Hold what requests to one URL with headers of the same names share: the origin, and the beginning of the head."""

    origin: _Origin
    head: str


class LeanTransport:
    """Hold connections to origins. Each request gets ``headers`` unless it has them; see :class:`Outbound`. With
    ``socket``, all go through the Unix socket of this path."""

    def __init__(
        self,
        *,
        tls: TlsFiles | None = None,
        headers: Mapping[str, str] | None = None,
        reserve: Callable[[int], bool] = lambda _: True,
        socket: str | None = None,
    ) -> None:
        self._reserve = reserve
        self._socket = socket
        self._tls = tls or TlsFiles()
        self._connector = Connector(self._tls)
        self._headers = {"Accept-Encoding": _ACCEPT_ENCODING, **(headers or {})}
        self._origins: dict[tuple[str, str, int], _Origin] = {}
        self._target = lru_cache(1000)(self._read_target)
        self._connections: set[LeanConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._writes = EndOfTurnQueue()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        hosts = sorted(f"{origin.peer.host}:{origin.peer.port}" for origin in self._origins.values())
        state = "closed" if self._is_closed else f"{len(self._connections)} connections"
        return f"<LeanTransport to {', '.join(hosts[:3]) or 'nothing yet'}, {state}>"

    async def close(self) -> None:
        """Close all connections. Exchanges under way end with :class:`Interrupted`."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`OutboundError`."""
        target = self._target(method, url, *headers)
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        message = f"{target.head}{_lines(headers)}{length}\r\n".encode() + body
        now = self._loop.time()
        deadline = now + timeout
        origin = target.origin
        while True:
            connection = origin.take(now) or await self._connect(origin, deadline)
            try:
                answer = await connection.begin(message, deadline, timeout, max_bytes)
            except response.EndedUnsent:
                continue  # another may be alive
            except asyncio.CancelledError:
                connection.abort()
                raise
            finally:
                connection.end()
            self._keep(origin, connection)
            return answer

    def _read_target(self, method: str, text: str, *names: str) -> _Target:
        try:
            url = URL(text)
        except ValueError as error:
            raise response.BadHttp("its URL is none") from error
        host, port = url.raw_host, url.port
        if url.scheme not in ("http", "https") or host is None or port is None:
            raise response.BadHttp("its URL is not http or https")
        key = (url.scheme, host, port)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = _Origin(Peer(host, port, url.scheme == "https", self._socket))
        if not all(map(_TOKEN.fullmatch, (*self._headers, *names))):
            raise response.BadHttp(_FORBIDDEN)
        own = {name.lower() for name in names}
        usual = {name: value for name, value in self._headers.items() if name.lower() not in own}
        head = f"{method} {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n{_lines(usual)}"
        return _Target(origin, head)

    async def _connect(self, origin: _Origin, deadline: float) -> LeanConnection:
        """Return a new connection. Raises :class:`ConnectFailed` or :class:`NoConnection`."""
        if self._is_closed:
            raise ConnectFailed("the gateway has closed its connections")
        forget = partial(self._forget, origin)
        make = partial(LeanConnection, self._tls, self._writes, forget, origin.note_unsolicited, self._reserve)
        limit = min(deadline, self._loop.time() + CONNECT_TIMEOUT)
        try:
            connection = await self._connector.connect(origin.peer, make, limit)
        except TimeoutError:
            if limit < deadline:
                raise ConnectFailed("no connection in time") from None
            raise response.NoConnection(f"no {'TLS' if origin.peer.is_tls else 'TCP'} connection in time") from None
        self._connections.add(connection)
        return connection

    def _keep(self, origin: _Origin, connection: LeanConnection) -> None:
        """Keep a connection after an exchange. One that cannot be used again closes itself."""
        if self._is_closed or origin.sent_unsolicited or len(origin.idle) >= MAX_IDLE:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        origin.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        for origin in self._origins.values():
            for connection in [one for one in origin.idle if now - one.idle_since >= one.patience]:
                origin.idle.remove(connection)
                connection.abort()
        if any(origin.idle for origin in self._origins.values()):
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    def _forget(self, origin: _Origin, connection: LeanConnection) -> None:
        self._connections.discard(connection)
        if connection in origin.idle:
            origin.idle.remove(connection)


def _lines(headers: Mapping[str, str]) -> str:
    """Return lines of a head. Raise :class:`BadHttp` for a value that would break the head."""
    lines = ""
    for name, value in headers.items():
        # Three searches for one character take a twentieth of the time of one for a class of characters.
        if "\r" in value or "\n" in value or "\0" in value:
            raise response.BadHttp(_FORBIDDEN)
        lines += f"{name}: {value}\r\n"
    return lines
