"""Open and close ports: accept connections, and let running requests finish before the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.http_server.accepting import Acceptor, bind
from gateway.http_server.connection import Connection
from gateway.http_server.connection_limit import ConnectionLimit
from gateway.http_server.handler import Handler, Serving
from gateway.http_server.held_bytes import HeldBytes

_CANCEL_TIMEOUT: Final = 1.0
"""Seconds for requests to end once they are cancelled."""


@dataclass(frozen=True)
class Port:
    """An open port. ``number`` is the bound one, also where port 0 was asked for."""

    number: int
    _serving: Serving
    _acceptor: Acceptor
    _shutdown_timeout: float

    def borrow(self, sockets: Sequence[socket.socket]) -> None:
        """Accept from these sockets, too, until the next call."""
        self._acceptor.borrow(sockets)

    def drain(self) -> None:
        """Serve on, but close each connection after its next response, which says so (RFC 9112 §9.6)."""
        self._serving.is_draining = True
        for connection in self._serving.connections:
            connection.is_draining = True

    async def close(self) -> None:
        """Accept no more connections, let running requests finish, and close all."""
        self.drain()
        await self._acceptor.close()
        await asyncio.sleep(0)  # lets requests that have arrived start
        connections: set[Connection] = self._serving.connections
        running = [ended for connection in tuple(connections) if (ended := connection.finish()) is not None]
        if running:
            await asyncio.wait(running, timeout=self._shutdown_timeout)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for connection in tuple(connections):
            connection.transport.abort()  # which cancels its task
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_TIMEOUT)


@dataclass(frozen=True)
class Bounds:
    """Limit what the clients of a port may cost. ``shutdown_timeout`` and ``write_timeout`` are seconds, ``spare`` is
    the number of descriptors that the port keeps for itself."""

    shutdown_timeout: float
    write_timeout: float
    limit: ConnectionLimit
    held: HeldBytes
    spare: int = 0


async def listen(handler: Handler, host: str, port: int, bounds: Bounds) -> Port:
    """Open a port and serve it, as :func:`listen_on` does. Raise :class:`OSError` if it cannot be bound."""
    return listen_on(await bind(host, port), handler, bounds)


def listen_on(sockets: Sequence[socket.socket], handler: Handler, bounds: Bounds) -> Port:
    """Serve the port of bound sockets. After :meth:`Port.close`, running requests have ``shutdown_timeout`` seconds."""
    serving = Serving(handler, bounds.write_timeout, bounds.held)
    acceptor = Acceptor(sockets, serving, bounds.limit, bounds.spare)
    return Port(acceptor.port, serving, acceptor, bounds.shutdown_timeout)
