"""Listen on a port, accept its connections and end them, under asyncio and uvloop alike.

uvloop's own server accepts one connection in a turn of the event loop, and closes them silently without descriptors.
Here up to :data:`AT_ONCE` are accepted in a turn; without descriptors they wait in the kernel, and the log says so.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from gateway.errors import Overloaded
from gateway.http_server.connection import Connection, has_waiting
from gateway.http_server.connection_limit import ConnectionLimit, Place
from gateway.http_server.handler import Handler, Serving
from gateway.http_server.held_bytes import HeldBytes
from gateway.http_server.tls import TlsTransport

_BACKLOG: Final = 4096
"""Connections that may wait to be accepted; net.core.somaxconn may allow fewer. Beyond it, a client waits a second."""
AT_ONCE: Final = 128
_PAUSE: Final = 1.0  # seconds
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REMEDY: Final = "raise the limit of open files (ulimit -n), or lower server.max_connections"
_UNSENT: Final = 128 * 1024
"""Bytes that the kernel may hold for a client beyond those on their way. Its default is megabytes, uncounted."""
_MAX_REQUEST: Final = 64 * 1024
_MAX_PEEKED: Final = 4096  # bytes, more than the head of a probe or a scrape has
_CANCEL_TIMEOUT: Final = 1.0  # seconds for requests to end once they are cancelled

log = structlog.get_logger()


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for each address of a host, none of which listens yet. Raise :class:`OSError`."""
    resolve = asyncio.get_running_loop().getaddrinfo
    try:
        found = await resolve(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(error.errno, f"{host} port {port}: the name cannot be resolved") from error
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                sockets.append(_bound(family, address))
            except OSError as error:
                # A system without IPv6 may have names such as localhost resolve to it nevertheless.
                if error.errno != errno.EAFNOSUPPORT:
                    raise
        if not sockets:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} port {port}: no address of it can be bound")
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def bind_beside(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Return sockets at the same addresses, which share connections (SO_REUSEPORT, Linux). Raise :class:`OSError`."""
    for bound in sockets:
        # After it is bound, not before: so that :func:`bind` fails where another program listens.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return [_bound(bound.family, bound.getsockname(), shares=True) for bound in sockets]


def _bound(family: int, address: Any, shares: bool = False) -> socket.socket:
    bound = None
    try:
        bound = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # on Windows this would take the port of another program
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if shares:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError as error:
        if bound is not None:
            bound.close()
        words = os.strerror(error.errno or 0).lower()
        raise OSError(error.errno, f"{address[0]} port {address[1]}: {words}") from error
    bound.setblocking(False)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # accepted sockets inherit it
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    return bound


def wait_for_bytes(sockets: Sequence[socket.socket]) -> None:
    """Have the kernel keep connections for a second, unless their clients send something (Linux). So clients that send
    nothing do not take the places of those who do, however often they come again."""
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        for bound in sockets:
            with suppress(OSError):  # a sandbox may have Linux's options in part
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)


@dataclass(frozen=True)
class Bounds:
    """Limit what the clients of a port may cost. Time-outs are seconds; after :meth:`Port.close`, running requests have
    ``shutdown_timeout``. ``spare`` descriptors are the port's own; ``at_once`` connections are accepted in a turn of
    the loop."""

    shutdown_timeout: float
    write_timeout: float
    limit: ConnectionLimit
    held: HeldBytes
    spare: int = 0
    at_once: int = AT_ONCE


class Port:
    """Accept and serve the connections of bound ``sockets`` until :meth:`close`, over TLS where it is given. ``number``
    is the bound port. Spare descriptors are held open: one is closed for a connection that finds no other, so that the
    admin port always responds."""

    def __init__(
        self, sockets: Sequence[socket.socket], handler: Handler, bounds: Bounds, tls: ssl.SSLContext | None = None
    ) -> None:
        self.serving = Serving(handler, bounds.write_timeout, bounds.held, tls)
        self.number: int = sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._sockets = self._own = tuple(sockets)
        self._bounds = bounds
        self._spare: list[int] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._filling: asyncio.TimerHandle | None = None
        self._exhausted = False
        self._closed = False
        for listening in self._sockets:
            listening.listen(_BACKLOG)
        self._fill_spare()
        self._resume()

    def drain(self) -> None:
        """Serve on, but close each connection after its next response, which says so (RFC 9112 §9.6)."""
        self.serving.is_draining = True
        for connection in self.serving.connections:
            connection.is_draining = True

    async def close(self) -> None:
        """Accept no more connections, let running requests finish, and close all."""
        self.drain()
        await self._stop_accepting()
        await asyncio.sleep(0)  # lets requests that have arrived start
        connections: set[Connection] = self.serving.connections
        running = [ended for connection in tuple(connections) if (ended := connection.finish()) is not None]
        if running:
            await asyncio.wait(running, timeout=self._bounds.shutdown_timeout)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for connection in tuple(connections):
            connection.transport.abort()  # which cancels its task
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_TIMEOUT)

    def borrow(self, sockets: Sequence[socket.socket]) -> None:
        """Also accept from these sockets. The next call, or :meth:`close`, closes them."""
        if self._closed:
            return
        for listening in self._sockets[len(self._own) :]:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = (*self._own, *sockets)
        for listening in sockets:
            listening.setblocking(False)
            listening.listen(_BACKLOG)
        if self._resuming is None:
            self._resume()

    async def _stop_accepting(self) -> None:
        """Return once every accepted connection has its protocol."""
        for timer in (self._resuming, self._filling):
            if timer is not None:
                timer.cancel()
        for listening in () if self._closed else self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._closed = True
        for descriptor in self._spare:
            os.close(descriptor)
        self._spare.clear()
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _resume(self) -> None:
        self._resuming = None
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept_waiting, listening)

    def _pause(self, error: OSError) -> None:
        """Leave new connections in the kernel's queue, or the loop would try again without a pause."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._resuming = self._loop.call_later(_PAUSE, self._resume)
        if not self._exhausted:
            self._exhausted = True
            reason = os.strerror(error.errno or 0).lower()
            log.error(
                "no connection can be accepted",
                port=self.number,
                reason=reason,
                open=self._bounds.limit.open,
                remedy=_REMEDY,
            )

    def _accept_waiting(self, listening: socket.socket) -> None:
        """Accept waiting connections, at most :attr:`Bounds.at_once`, so that requests get their turn in between."""
        for _ in range(self._bounds.at_once):
            try:
                accepted, address = self._accept(listening)
            except (BlockingIOError, InterruptedError):
                if self._exhausted:
                    self._exhausted = False
                    log.info("connections are accepted again", port=self.number)
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    if has_waiting(listening):
                        self._pause(error)
                    return
                continue  # accept(2): it also reports errors of the one connection
            self._admit(accepted, address)

    def _accept(self, listening: socket.socket) -> tuple[socket.socket, Any]:
        try:
            return listening.accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED or not self._spare or not has_waiting(listening):
                raise
        os.close(self._spare.pop())
        return listening.accept()

    def _admit(self, accepted: socket.socket, address: Any) -> None:
        accepted.setblocking(False)
        try:
            place = self._bounds.limit.enter(address[0], partial(_first_head, accepted))
        except Overloaded as error:
            _refuse(accepted, b"" if self.serving.tls else self.serving.handler.raw_refusal(error))
            return
        task = self._loop.create_task(self._connect(accepted, place))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket, place: Place) -> None:
        connection, tls = Connection(self.serving, partial(self._lost, place)), self.serving.tls
        connection.is_draining |= place.is_beyond  # it has its one answer: more of them may go unread
        protocol = connection if tls is None else TlsTransport(tls, connection, self.serving)
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
            if not connection.transport.is_closing():
                place.connection = connection
        except OSError:
            accepted.close()
            self._lost(place)

    def _lost(self, place: Place) -> None:
        self._bounds.limit.leave(place)
        if len(self._spare) < self._bounds.spare and self._filling is None and not self._closed:
            self._filling = self._loop.call_later(_PAUSE, self._fill_spare)  # its descriptor is still open

    def _fill_spare(self) -> None:
        self._filling = None
        try:
            while len(self._spare) < self._bounds.spare:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            self._filling = self._loop.call_later(_PAUSE, self._fill_spare)


def _first_head(accepted: socket.socket) -> bytes:
    """Return what has come of a first request, b"" unless its head is whole. It stays there to be read."""
    try:
        sent = accepted.recv(_MAX_PEEKED, socket.MSG_PEEK)
    except OSError:
        return b""
    return sent if b"\r\n\r\n" in sent else b""


def _refuse(accepted: socket.socket, response: bytes) -> None:
    """Respond to a connection without reading its request, and close it."""
    with suppress(OSError):
        accepted.recv(_MAX_REQUEST)  # closing with bytes unread is a reset, which may overtake the response
    with suppress(OSError):
        accepted.send(response)
    accepted.close()
