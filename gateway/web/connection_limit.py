"""Bound the open connections of a port, and how many of them one address may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from gateway.errors import Overloaded
from gateway.limits import network_of
from gateway.web.refusal_log import RefusalLog

SHARE: Final = 4
"""One address may have one connection in four (decision 31)."""
_REMEDY: Final = "raise the knob, or look who holds them"
_SHARE_REMEDY: Final = "if this is a reverse proxy, name it in server.trusted_proxies"


class ConnectionLimit:
    """Count connections: at most ``most``, and of one network a share of that, unless ``trusts`` says that its address
    is a trusted proxy's, which has the connections of many clients."""

    def __init__(self, most: int, trusts: Callable[[str], bool]) -> None:
        self.most = most
        self.share = max(1, most // SHARE)
        self.open = 0
        self._trusts = trusts
        self._by_network: Counter[str] = Counter()
        self._log = RefusalLog("connections", "server.max_connections")

    def __repr__(self) -> str:
        return f"<ConnectionLimit {self.open} of {self.most}, {len(self._by_network)} networks>"

    def enter(self, address: str) -> str:
        """Count a connection from an address, and return what :meth:`leave` takes at its end. Raise
        :class:`Overloaded` where there are too many."""
        if self.open >= self.most:
            self._log.count("", self.most, _REMEDY)
            raise Overloaded("Too many connections", retry_after=1)
        network = "" if self._trusts(address) else network_of(address)
        if network:
            if self._by_network[network] >= self.share:
                self._log.count(network, self.share, _SHARE_REMEDY)
                raise Overloaded("Too many connections from this address", retry_after=1)
            self._by_network[network] += 1
        self.open += 1
        return network

    def leave(self, network: str) -> None:
        """Count the end of a connection."""
        self.open -= 1
        self._log.note("", self.open, self.most)
        if network:
            self._by_network[network] -= 1
            self._log.note(network, self._by_network[network], self.share)
            if not self._by_network[network]:
                del self._by_network[network]
