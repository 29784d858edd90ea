"""Open connections to services: over TCP, TLS and Unix sockets. Failures have words that name no host and no path."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple, TypeVar

from cachetools import TTLCache

from gateway.concurrency.single_flight import SingleFlight
from gateway.http_client.resolver import Address, Resolver
from gateway.http_client.response import DNS_TTL, ConnectFailed
from gateway.http_client.tls import TlsFiles, certificate_reason, tls_reason

AnyProtocol = TypeVar("AnyProtocol", bound=asyncio.Protocol)

REASONS: Final[dict[type[OSError], str]] = {
    ConnectionRefusedError: "connection refused",
    FileNotFoundError: "its socket is not there",
    PermissionError: "the gateway's user may not connect to it",
    socket.gaierror: "its name cannot be resolved",
}


_FULL: Final = 0.005
"""Seconds from one attempt to the next where as many wait at a Unix socket as it lets."""


class Peer(NamedTuple):
    """Name what to connect to: a host and a port, with TLS or without, or else the path of a Unix socket."""

    host: str
    port: int
    is_tls: bool = False
    path: str | None = None


class Connector:
    """Open connections with the TLS of ``tls``. Raises :class:`OSError` where one of its files cannot be used."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls
        self._tls_context = cache(tls.context)
        if not tls.is_default:
            self._tls_context()  # now: it raises where a file cannot be used
        self._resolver = Resolver()
        self._look_ups: SingleFlight[tuple[str, int], list[Address]] = SingleFlight()
        self._addresses: TTLCache[tuple[str, int], list[Address]] = TTLCache(1000, DNS_TTL)
        self._loop = asyncio.get_running_loop()

    async def connect(self, peer: Peer, make: Callable[[], AnyProtocol], until: float) -> AnyProtocol:
        """Return the protocol that ``make`` returns, connected by the loop's time ``until``. Raises
        :class:`ConnectFailed`, and :class:`TimeoutError`."""
        try:
            async with asyncio.timeout_at(until):
                if peer.path is not None:
                    return await self._connect_to_path(peer.path, make)
                return await self._connect_to_any(peer, make, await self._look_up(peer.host, peer.port), until)
        except TimeoutError:
            raise
        except ssl.SSLCertVerificationError as error:
            raise ConnectFailed(certificate_reason(error, self._tls)) from error
        except ssl.SSLError as error:
            raise ConnectFailed(tls_reason(error, self._tls)) from error
        except OSError as error:
            raise ConnectFailed(REASONS.get(type(error), "no connection")) from error

    async def _connect_to_path(self, path: str, make: Callable[[], AnyProtocol]) -> AnyProtocol:
        """Connect to a Unix socket, and wait while as many wait there as the service lets: asyncio takes that for a
        connection, on which everything fails."""
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            ours.setblocking(False)
            while True:
                try:
                    ours.connect(path)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_FULL)
            return (await self._loop.create_unix_connection(make, sock=ours))[1]
        except BaseException:
            ours.close()
            raise

    async def _look_up(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a host, at most :data:`DNS_TTL` seconds old. Raises :class:`OSError`."""
        key = (host, port)
        known = self._addresses.get(key)
        if known is None:
            known = await self._look_ups.join(key, lambda: self._resolver.addresses(host, port, socket.AF_UNSPEC))
            self._addresses[key] = known
        return known

    async def _connect_to_any(
        self, peer: Peer, make: Callable[[], AnyProtocol], addresses: list[Address], until: float
    ) -> AnyProtocol:
        """Try each address for its part of the time that is left; raise the last failure. What failed comes last."""
        left = len(addresses)
        for address in tuple(addresses):
            try:
                async with asyncio.timeout((until - self._loop.time()) / left):
                    return await self._connect_to(peer, make, address)
            except ssl.SSLError:
                raise  # another address has the same certificate
            except OSError:
                addresses.sort(key=address.__eq__)  # it becomes the last
                left -= 1
                if not left:
                    raise
        raise ConnectFailed("its name has no address")

    async def _connect_to(self, peer: Peer, make: Callable[[], AnyProtocol], address: Address) -> AnyProtocol:
        transport, connection = await self._loop.create_connection(
            make,
            address.host,
            peer.port,
            ssl=self._tls_context() if peer.is_tls else None,
            server_hostname=(self._tls.server_name or peer.host) if peer.is_tls else None,
        )
        try:
            self._tls.check_pinned(transport)
        except ConnectFailed:
            transport.abort()
            raise
        return connection
