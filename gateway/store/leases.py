"""Take permits from a shared store a few at a time, so that few calls wait for it.

A lease is a tenth of what is free at the moment, so that many replicas do not hold all of it. It may be used for five
seconds. What was not used is given back when the next lease is taken. So a caller within its limit is not refused for
what other replicas hold, and the limit is exceeded by at most one lease for each replica.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.store import Permit

SHARE: Final = 10
"""A lease is this part of the permits that are free, and at most of the burst."""
LIFE: Final = 5.0
"""Seconds for which a lease may be used."""
_ROUNDING: Final = 1e-6


class Lease:
    """Hold the permits of one key that were taken and not used yet: ``count``, to be used until ``ends``. At
    ``asked_at`` the whole burst was to be there after ``owed`` seconds."""

    __slots__ = ("asked_at", "count", "ends", "lock", "owed")

    def __init__(self) -> None:
        self.count = 0
        self.ends = self.asked_at = self.owed = 0.0
        self.lock = asyncio.Lock()


class LeasedPermit:
    """Implement :class:`gateway.store.Permit`. ``ask`` gives its second argument of permits back to the shared store,
    and takes a lease: as many as its first argument, or more, or none. It returns how many, and the seconds until the
    whole burst is there; None while the store is unavailable. Then the permits of ``local`` count, which also returns
    their burst. ``clock`` is seconds."""

    def __init__(
        self,
        lease: Lease,
        rate: float,
        burst: int,
        *,
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
        if not 0 < n <= self._burst:
            raise ValueError(f"{n} permits cannot be taken at once: the burst is {self._burst}")
        if self._use_lease(n):
            return 0.0
        async with self._lease.lock:
            return 0.0 if self._use_lease(n) else await self._take_lease(n)  # another call may have leased meanwhile

    def _use_lease(self, n: int) -> bool:
        """Take permits of the lease. Return whether it has so many."""
        lease = self._lease
        if lease.count < n or self._clock() >= lease.ends:
            return False
        lease.count -= n
        return True

    def remaining(self) -> tuple[int, float]:
        if self._is_local:
            return self._local()[0].remaining()
        lease = self._lease
        owed = min(max(0.0, lease.owed - (self._clock() - lease.asked_at)), self._span)
        free = int((self._span - owed + _ROUNDING) / self._interval)
        # What cannot be used any more is given back before more are taken.
        return min(self._burst, max(0, free) + lease.count), round(max(0.0, owed - lease.count * self._interval), 6)

    async def _take_lease(self, n: int) -> float:
        """Give back what was not used, and take ``n`` permits and a lease."""
        lease = self._lease
        unused, lease.count = lease.count, 0  # at once: where the answer is lost, they may have been given back
        answer = await self._ask(n, unused)
        self._is_local = answer is None
        if answer is None:
            permit, burst = self._local()
            return await permit.take(min(n, burst))
        taken, owed = answer
        lease.asked_at, lease.owed = self._clock(), owed
        if taken:
            lease.count = taken - n
            lease.ends = lease.asked_at + LIFE
            return 0.0
        return round(owed + n * self._interval - self._span, 6)
