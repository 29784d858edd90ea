"""Take permits from a shared store a few at a time, so that few calls wait for it.

A lease is at most a tenth of the burst. It ends when its permits would be free again anyway, so a replica keeps none
for later, and the limit is exceeded by at most one lease for each replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.store import Permit

SHARE: Final = 10
"""A lease is at most this part of a burst."""
_ROUNDING: Final = 1e-6


class Lease:
    """Hold the permits of one key that were taken and not used yet: ``count`` until ``ends``. At ``asked_at`` the whole
    burst was to be there after ``owed`` seconds."""

    __slots__ = ("asked_at", "count", "ends", "lock", "owed")

    def __init__(self) -> None:
        self.count = 0
        self.ends = self.asked_at = self.owed = 0.0
        self.lock = asyncio.Lock()

    def held(self, now: float) -> int:
        """Return how many permits may still be used."""
        return self.count if now < self.ends else 0


class LeasedPermit:
    """Implement :class:`gateway.store.Permit`. ``ask`` takes permits of the shared store: at least as many as its first
    argument or none, and at most its second. It returns how many, and the seconds until the whole burst is there; None
    while the store is away. Then the permits of ``local`` count, whose burst is given, too. ``clock`` is seconds."""

    def __init__(
        self,
        lease: Lease,
        rate: float,
        burst: int,
        clock: Callable[[], float],
        ask: Callable[[int, int], Awaitable[tuple[int, float] | None]],
        local: Callable[[], tuple[Permit, int]],
    ) -> None:
        self._lease = lease
        self._burst = burst
        self._interval = 1 / rate
        self._span = burst / rate
        self._clock = clock
        self._ask = ask
        self._local = local
        self._is_local = False

    async def take(self, n: int = 1) -> float:
        wait = self.take_at_once(n)
        if wait is not None:
            return wait
        async with self._lease.lock:
            return await self._take_of_both(n)

    def take_at_once(self, n: int = 1) -> float | None:
        if not 0 < n <= self._burst:
            raise ValueError(f"{n} permits cannot be taken at once: the burst is {self._burst}")
        lease = self._lease
        # Somebody who asks has spoken for what is held.
        if lease.lock.locked() or lease.held(self._clock()) < n:
            return None
        lease.count -= n
        return 0.0

    def remaining(self) -> tuple[int, float]:
        if self._is_local:
            return self._local()[0].remaining()
        now, lease = self._clock(), self._lease
        held = lease.held(now)
        owed = min(max(0.0, lease.owed - (now - lease.asked_at)), self._span)
        free = int((self._span - owed + _ROUNDING) / self._interval)
        return min(self._burst, max(0, free) + held), round(max(0.0, owed - held * self._interval), 6)

    async def _take_of_both(self, n: int) -> float:
        """Take what is held, and the rest of the store."""
        lease = self._lease
        held = lease.held(self._clock())
        if held >= n:
            lease.count -= n
            return 0.0
        answer = await self._ask(n - held, max(1, self._burst // SHARE))
        self._is_local = answer is None
        if answer is None:
            permit, burst = self._local()
            return await permit.take(min(n, burst))
        taken, owed = answer
        lease.asked_at, lease.owed = self._clock(), owed
        if taken:
            lease.count = held + taken - n
            lease.ends = lease.asked_at + lease.count * self._interval
            return 0.0
        return round(owed + n * self._interval - self._span, 6)
