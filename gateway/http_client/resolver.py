"""Look up host names in daemon threads of our own.

The loop's look-up shares its few threads with other work: some names whose server does not answer would hold up all of
it, and the end of the process.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from yarl import URL

from gateway.concurrency.threads import run_apart

MAX_AT_ONCE: Final = 8
"""Look-ups of one pool of connections at the same time. Each is of another name."""


class AddressRefused(OSError):
    """Raised where a name resolves to forbidden addresses alone."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Limit which addresses host names may resolve to. ``refuses`` returns why an IP address is forbidden, or None. The
    operator has named ``trusted_urls``: their hosts may resolve to any address."""

    refuses: Callable[[str], str | None]
    trusted_urls: frozenset[str] = frozenset()


class Address(NamedTuple):
    """Hold an IP address that a name resolved to."""

    family: socket.AddressFamily
    host: str


class Resolver:
    """Resolve names to the addresses that may be connected to, so that another answer a moment later (DNS rebinding)
    gains nothing. A host that is an address is not resolved: code that takes it from strangers checks it."""

    def __init__(self, reach: Reach | None = None) -> None:
        urls = map(URL, reach.trusted_urls) if reach is not None else ()
        self._trusted_hosts = frozenset((url.raw_host, url.port) for url in urls)
        self._refuses = reach.refuses if reach is not None else None
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)

    async def addresses(self, host: str, port: int, family: socket.AddressFamily) -> list[Address]:
        """Return the permitted addresses. Raises :class:`OSError` where there is none."""
        async with self._slots:
            found = await run_apart("name look-up", _look_up, host, port, family)
        if self._refuses is None or (host, port) in self._trusted_hosts:
            return found
        reasons = [self._refuses(address.host) for address in found]
        kept = [address for address, reason in zip(found, reasons, strict=True) if reason is None]
        if not kept:
            raise AddressRefused(f"its name {reasons[0]}; if that is intended, name the address in the settings")
        return kept


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[Address]:
    # Flags: only families that this machine has an address of.
    infos = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    # getnameinfo writes a link-local IPv6 address with its scope, and looks nothing up for numbers.
    return [Address(info[0], socket.getnameinfo(info[4], numeric)[0]) for info in infos]
