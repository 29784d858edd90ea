"""Whose browser may talk to us, and under which names: protection against DNS rebinding and foreign pages.

A page on the web can make its visitor's browser send requests to loopback. Such a request names the attacker's host
(rebinding), or has a foreign ``Origin``; both are refused (2026-07-28, transports "Security Warning").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from gateway.errors import Forbidden, MisdirectedRequest

_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))


class Origins:
    """The names and origins of one gateway."""

    def __init__(self, public_url: str | None, hosts: Iterable[str], origins: Iterable[str]) -> None:
        own = {urlsplit(public_url).hostname or ""} if public_url else set()
        self._any_host = "*" in hosts
        self._hosts = _LOOPBACK | own | {host.lower() for host in hosts}
        self._origins = {_origin(origin) for origin in origins} | ({_origin(public_url)} if public_url else set())
        self._good_hosts: set[str] = set()

    def check_host(self, host: str) -> None:
        """Raises :class:`MisdirectedRequest`."""
        if self._any_host or host in self._good_hosts:
            return
        if _hostname(host) not in self._hosts:
            raise MisdirectedRequest("This host is not served here; server.allowed_hosts names the hosts that are")
        if len(self._good_hosts) < 100:
            self._good_hosts.add(host)

    def check_origin(self, origin: str, host: str) -> bool:
        """Tell whether the origin is another site's that may read answers; False for our own.

        ``host`` is the request's, already checked. Raises :class:`Forbidden`.
        """
        seen = _origin(origin)
        if seen in self._origins:
            return True
        scheme, _, own = seen.partition("://")
        if scheme in ("http", "https"):
            if own == host.lower():
                return False
            # Loopback has three names, and who serves our port under one of them is us.
            if _port(own) == _port(host) and {_hostname(own), _hostname(host)} <= _LOOPBACK:
                return True
        raise Forbidden("This origin may not call; server.allowed_origins names those that may")


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _port(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]


def _origin(url: str) -> str:
    """Scheme, host and port, without the port that goes without saying."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2].lower()
    if port is not None and port == {"http": 80, "https": 443}.get(parts.scheme):
        host = host.rpartition(":")[0]
    return f"{parts.scheme.lower()}://{host}"
