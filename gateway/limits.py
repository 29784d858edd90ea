"""Who may do how much.

Discovery above all: a listing costs the backend more than most calls, and clients ask for it in loops. A caller is
counted by permits of the store.
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
"""Callers whose permits a budget has at hand; it asks the store for those of others."""
_Who: TypeAlias = str | tuple[str, str]
"""A caller's identity, or the address of one without a token."""


class Budget:
    """A rate for each caller: ``multiplier`` what ``rate`` says. Of ``60/minute`` all 60 may come at once, and from
    then on one a second. What was spent stays spent under another rate: the store keeps it."""

    def __init__(self, store: Store, name: str, rate: str, multiplier: int = 1) -> None:
        self._store = store
        self._name = name
        count, _, self._period = rate.partition("/")
        self._burst = int(count) * multiplier
        self._permits: LRUCache[_Who, Permit] = LRUCache(MAX_HANDLES)

    async def spend(self, caller: Caller) -> None:
        """Count one against a caller. Raises :class:`RateLimited` with the seconds to wait."""
        who = caller.address if caller.principal is None else caller.identity
        permit = self._permits.get(who)
        if permit is None:
            permit = self._permits[who] = self._permit(caller)
        if wait := await permit.take():
            raise RateLimited(
                f"Too many {self._name} requests, at most {self._burst} per {self._period}", retry_after=math.ceil(wait)
            )

    def _permit(self, caller: Caller) -> Permit:
        # Addresses are easily had: more than there is room for must push out nobody who has a token.
        purpose = self._name if caller.principal is None else f"{self._name} by token"
        return self._store.permit(f"{purpose}:{counted_as(caller)}", self._burst / PERIODS[self._period], self._burst)


class StreamLimit:
    """How many streams each caller holds open at one path, at most ``most`` each."""

    def __init__(self) -> None:
        self.most = 0
        self._open: Counter[str] = Counter()

    def check(self, caller: Caller) -> None:
        """Raises :class:`RateLimited` where the caller holds as many as allowed."""
        if self._open[counted_as(caller)] >= self.most:
            raise RateLimited(f"Too many open streams, at most {self.most}", retry_after=10)

    @contextmanager
    def hold_stream(self, caller: Caller) -> Iterator[None]:
        """Count one while it is open."""
        key = counted_as(caller)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def counted_as(caller: Caller) -> str:
    """Whom limits count: who the caller is, else what it calls from."""
    return network_of(caller.address) if caller.principal is None else "\n".join(caller.identity)


def network_of(address: str) -> str:
    """What one caller can speak from: an IPv4 address, or an IPv6 /64, within which addresses are free."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
