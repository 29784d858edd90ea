"""Choose the transport of a service by the scheme of its URL."""

from collections.abc import Callable
from typing import Final

from gateway.backend.http import HEADERS, HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import Receiver, SocketConnection, SocketTransport
from gateway.backend.transport import OpenTransport
from gateway.http_client.choice import open_client
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles
from gateway.http_client.websocket import WebSocket, refuse_redirects
from gateway.settings import ServiceSettings

_ROOM: Final = 4
"""Size of the largest message over a WebSocket, as a multiple of the largest answer: a larger one ends the connection,
and all calls on it, while an answer that is too large is the fault of its own call."""


def open_transport(
    settings: ServiceSettings, tls: TlsFiles, reserve: Callable[[int], bool], *, digest: bool
) -> OpenTransport:
    """Return the transport to a service, which opens no connection yet. ``reserve`` counts memory for what is read;
    with ``digest`` the HTTP client answers challenges."""
    backend = settings.backend
    if backend.wire == "websocket":
        dialer = _WebSocketDialer(settings, tls)
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

    async def connect(self, parts: RequestParts, receiver: Receiver) -> SocketConnection:
        socket = await self._outbound.open_websocket(parts.url(self._url), parts.headers, max_bytes=self._max_bytes)
        return WebSocket(socket, receiver.message_received, receiver.connection_lost)

    async def close(self) -> None:
        await self._outbound.close()
