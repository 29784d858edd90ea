"""Choose the transport of a service by the scheme of its URL."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

from gateway.backend.framing import Framing
from gateway.backend.http import HEADERS, HttpTransport
from gateway.backend.sockets import OnEnd, OnMessage, SocketConnection, SocketTransport
from gateway.backend.transport import Outgoing
from gateway.http_client.choice import open_client
from gateway.http_client.connecting import Connector, Peer
from gateway.http_client.response import CONNECT_TIMEOUT
from gateway.http_client.session import Outbound
from gateway.http_client.streams import Stream
from gateway.http_client.tls import TlsFiles
from gateway.http_client.websocket import WebSocket, refuse_redirects
from gateway.settings import ServiceSettings
from gateway.settings.backend import Backend

_ROOM: Final = 4
"""Size of the largest message on a socket, as a multiple of the largest answer: a larger one ends the connection, and
all calls on it, while an answer that is too large is the fault of its own call."""


def open_transport(
    settings: ServiceSettings, tls: TlsFiles, reserve: Callable[[int], bool], *, digest: bool
) -> HttpTransport | SocketTransport:
    """Return the transport to a service, which opens no connection yet. ``reserve`` counts memory for what is read;
    with ``digest`` the HTTP client answers challenges."""
    backend = settings.backend
    if backend.wire != "http":
        dialer = _WebSocketDialer(settings, tls) if backend.wire == "websocket" else _StreamDialer(backend, tls)
        return SocketTransport(dialer, room=_ROOM * backend.max_response, reserve=reserve)
    return HttpTransport(open_client(settings, tls, HEADERS, reserve, digest=digest), backend.target)


class _WebSocketDialer:
    """Open WebSockets. Their handshake carries the headers and the query of a credential."""

    def __init__(self, settings: ServiceSettings, tls: TlsFiles) -> None:
        backend = settings.backend
        fixed = {name: value.get_secret_value() for name, value in backend.headers.items()}
        headers = {"User-Agent": HEADERS["User-Agent"], **fixed}
        self._url = backend.url
        self._max_bytes = _ROOM * backend.max_response
        self._outbound = Outbound(connections=0, tls=tls, headers=headers, middlewares=(refuse_redirects,))

    async def connect(self, outgoing: Outgoing, on_message: OnMessage, on_end: OnEnd) -> SocketConnection:
        parts = outgoing.parts
        socket = await self._outbound.open_websocket(parts.url(self._url), parts.headers, max_bytes=self._max_bytes)
        return WebSocket(socket, on_message, on_end)

    async def close(self) -> None:
        await self._outbound.close()


class _StreamDialer:
    """Open streams over TCP, TLS, or to a Unix socket."""

    def __init__(self, backend: Backend, tls: TlsFiles) -> None:
        scheme, url = urlsplit(backend.url).scheme, urlsplit(backend.url)
        path = unquote(url.path) if scheme == "unix" else None
        self._peer = Peer(url.hostname or "", url.port or 0, scheme == "tls", path)
        self._connector = Connector(tls)
        self._max_bytes = _ROOM * backend.max_response

    async def connect(self, outgoing: Outgoing, on_message: OnMessage, on_end: OnEnd) -> SocketConnection:
        framing = Framing(outgoing.form.framing)
        feed = framing.reader(self._max_bytes).feed
        until = asyncio.get_running_loop().time() + CONNECT_TIMEOUT
        make = partial(Stream, framing.wrap, feed, on_message, on_end)
        return await self._connector.connect(self._peer, make, until)

    async def close(self) -> None:
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop
