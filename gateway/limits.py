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
from functools import lru_cache

from gateway.errors import RateLimited
from gateway.store import Store
from gateway.units import PERIODS


class Budget:
    """A rate for each caller: ``times`` what ``rate`` says. Of ``60/minute`` all 60 may come at once, and from then on
    one a second. What was spent stays spent under another rate: the store keeps it."""

    def __init__(self, store: Store, name: str, rate: str, times: int = 1) -> None:
        self._store = store
        self._name = name
        count, _, self._period = rate.partition("/")
        self._burst = int(count) * times

    async def spend(self, who: str) -> None:
        """Count one against a caller, see :attr:`gateway.model.Caller.counted_as`. Raises :class:`RateLimited` with the
        seconds to wait."""
        rate = self._burst / PERIODS[self._period]
        # Addresses are easily had: more than there is room for must push out nobody who has a token.
        purpose = f"{self._name} by token" if "\n" in who else self._name
        if wait := await self._store.permit(f"{purpose}:{network_of(who)}", rate, self._burst).take():
            raise RateLimited(
                f"Too many {self._name} requests, at most {self._burst} per {self._period}", retry_after=math.ceil(wait)
            )


class Streams:
    """How many streams each caller holds open at one path, at most ``most`` each."""

    def __init__(self) -> None:
        self.most = 0
        self._open: Counter[str] = Counter()

    def check(self, address: str) -> None:
        """Raises :class:`RateLimited` where the caller holds as many as allowed."""
        if self._open[network_of(address)] >= self.most:
            raise RateLimited(f"Too many open streams, at most {self.most}", retry_after=10)

    @contextmanager
    def held(self, address: str) -> Iterator[None]:
        """Count one while it is open."""
        key = network_of(address)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


@lru_cache(4096)
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
