"""Choose the transport of a service by the scheme of its URL."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

from gateway.backend.framing import Framing
from gateway.backend.http import HEADERS, HttpTransport
from gateway.backend.socket_link import SocketLink
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import MAX_LISTING, Outgoing
from gateway.backend.unfinished import UnfinishedMessages
from gateway.http_client.choice import open_client
from gateway.http_client.connecting import Connector, Peer
from gateway.http_client.response import CONNECT_TIMEOUT
from gateway.http_client.session import Outbound
from gateway.http_client.streams import Stream
from gateway.http_client.tls import TlsFiles
from gateway.http_client.websocket import take_over
from gateway.settings import ServiceSettings
from gateway.settings.backend import Backend

_ROOM: Final = 4
"""Size of the largest message on a socket, as a multiple of the largest answer: a larger one ends the connection, and
all calls on it, while an answer that is too large is the fault of its own call."""


def _room(backend: Backend) -> int:
    return max(_ROOM * backend.max_response, MAX_LISTING)


def _longest(settings: ServiceSettings) -> float:
    """Return the longest deadline of a call, in seconds: for so long a connection may come back."""
    of_tools = (tool.timeout or 0.0 for tool in settings.catalog.tools.values())
    return max(settings.backend.timeout, *of_tools, 0.0)


def open_transport(
    settings: ServiceSettings,
    tls: TlsFiles,
    reserve: Callable[[int], bool],
    unfinished: UnfinishedMessages,
    *,
    digest: bool,
) -> HttpTransport | SocketTransport:
    """Return the transport to a service, which opens no connection yet. ``reserve`` counts memory for what is read over
    HTTP, ``unfinished`` on sockets; with ``digest`` the HTTP client answers challenges."""
    wire = settings.backend.wire
    if wire == "http":
        client = open_client(settings, tls, HEADERS, reserve, digest=digest)
        return HttpTransport(client, settings.backend.target, settings.backend.not_run)
    return (_WebSockets if wire == "websocket" else _Streams)(settings, tls, unfinished)


class _WebSockets(SocketTransport):
    """Send messages over WebSockets. Their handshake carries the headers and the query of a credential."""

    def __init__(self, settings: ServiceSettings, tls: TlsFiles, unfinished: UnfinishedMessages) -> None:
        backend = settings.backend
        super().__init__(_room(backend), backend.max_response, unfinished, backend.timeout)
        self._longest = _longest(settings)
        fixed = {name: value.get_secret_value() for name, value in backend.headers.items()}
        headers = {"User-Agent": HEADERS["User-Agent"], **fixed}
        self._url = backend.url
        self._outbound = Outbound(connections=0, tls=tls, headers=headers)

    async def connect(self, outgoing: Outgoing, link: SocketLink) -> Stream:
        parts = outgoing.parts
        answer = await self._outbound.open_websocket(parts.url(self._url), parts.headers)
        notes = (link.message_received, link.note_held, link.connection_lost)
        return take_over(answer, self.room, *notes, self._longest)

    async def close(self) -> None:
        await super().close()
        await self._outbound.close()


class _Streams(SocketTransport):
    """Send messages over TCP, TLS, or a Unix socket."""

    def __init__(self, settings: ServiceSettings, tls: TlsFiles, unfinished: UnfinishedMessages) -> None:
        backend = settings.backend
        super().__init__(_room(backend), backend.max_response, unfinished, backend.timeout)
        self._longest = _longest(settings)
        url = urlsplit(backend.url)
        path = unquote(url.path) if url.scheme == "unix" else None
        self._peer = Peer(url.hostname or "", url.port or 0, url.scheme == "tls", path)
        self._connector = Connector(tls)

    async def connect(self, outgoing: Outgoing, link: SocketLink) -> Stream:
        framing = Framing(outgoing.form.framing, self.room)
        until = asyncio.get_running_loop().time() + CONNECT_TIMEOUT
        notes = (link.message_received, link.note_held, link.connection_lost)
        make = partial(Stream, framing, *notes, self._longest)
        return await self._connector.connect(self._peer, make, until)

    async def close(self) -> None:
        await super().close()
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop
