"""Limit each caller: rates of requests, which replicas share through the store, and numbers of open streams.

Discovery needs a rate most: a listing costs the backend more than most calls, and clients ask for it in loops.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from cachetools import LRUCache

from gateway.errors import RateLimited
from gateway.model import Caller
from gateway.store import Permit, Store
from gateway.units import PERIODS

MAX_HANDLES: Final = 4096
"""Most permits that one budget keeps; the store creates the others again."""
_CallerKey: TypeAlias = str | tuple[str, str]
"""The caller's identity, or the address of a caller without a token."""


class Budget:
    """Limit the rate of each caller to ``multiplier`` times ``rate``. ``60/minute`` allows 60 requests at once and then
    one each second. The store holds what was spent, so a reload with another rate does not reset it."""

    def __init__(self, store: Store, name: str, rate: str, multiplier: int = 1) -> None:
        self._store = store
        self._name = name
        count, _, self._period = rate.partition("/")
        self._burst = int(count) * multiplier
        self._permits: LRUCache[_CallerKey, Permit] = LRUCache(MAX_HANDLES)

    async def spend(self, caller: Caller) -> None:
        """Count one request of a caller. Raise :class:`RateLimited` with the seconds to wait."""
        key = caller.address if caller.principal is None else caller.identity
        permit = self._permits.get(key)
        if permit is None:
            permit = self._permits[key] = self._permit(caller)
        if wait := await permit.take():
            raise RateLimited(
                f"Too many {self._name} requests, at most {self._burst} per {self._period}", retry_after=math.ceil(wait)
            )

    def _permit(self, caller: Caller) -> Permit:
        # Addresses are cheap: a flood of them must not evict the counts of callers with a token.
        purpose = self._name if caller.principal is None else f"{self._name} by token"
        return self._store.permit(
            f"{purpose}:{rate_limit_key(caller)}", self._burst / PERIODS[self._period], self._burst
        )


class StreamLimit:
    """Count the open streams of each caller at one mount, at most ``most`` for each."""

    def __init__(self) -> None:
        self.most = 0
        self._open: Counter[str] = Counter()

    def check(self, caller: Caller) -> None:
        """Raise :class:`RateLimited` where the caller has ``most`` streams open."""
        if self._open[rate_limit_key(caller)] >= self.most:
            raise RateLimited(f"Too many open streams, at most {self.most}", retry_after=10)

    @contextmanager
    def hold_stream(self, caller: Caller) -> Iterator[None]:
        """Count a stream while it is open."""
        key = rate_limit_key(caller)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def rate_limit_key(caller: Caller) -> str:
    """Return whom limits count: the caller's identity, else its network."""
    return network_of(caller.address) if caller.principal is None else "\n".join(caller.identity)


def network_of(address: str) -> str:
    """Return the network of one caller: an IPv4 address, or an IPv6 /64, whose addresses one caller can all use."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
