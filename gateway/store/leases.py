"""Take permits from a shared store a few at a time, so that few calls wait for it.

A lease is a tenth of what is free at the moment, so that many replicas do not hold all of it. It may be used for five
seconds. What was not used is given back when the next lease is taken. So a caller within its limit is not refused for
what other replicas hold, and the limit is exceeded by at most one lease for each replica.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.store import Permit

SHARE: Final = 10
"""A lease is this part of the permits that are free, and at most of the burst."""
LIFE: Final = 5.0
"""Seconds for which a lease may be used."""
_ROUNDING: Final = 1e-6


@dataclass(slots=True, eq=False)
class Lease:
    """Hold the permits of one key that were taken and not used yet: ``count``, to be used until ``ends``. At
    ``asked_at`` the whole burst was to be there after ``owed`` seconds."""

    count: int = 0
    ends: float = 0.0
    asked_at: float = 0.0
    owed: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True, eq=False)
class LeasedPermit:
    """Implement :class:`gateway.store.Permit`, with one more permit every ``interval`` seconds.

    ``ask`` gives that many permits back to the shared store, and takes a lease. It returns how many permits that has,
    and the seconds until the whole burst is there; None while the store is unavailable. Then the permits of ``local``
    count. ``clock`` is seconds."""

    _lease: Lease
    _interval: float
    _burst: int
    _clock: Callable[[], float]
    _ask: Callable[[int], Awaitable[tuple[int, float] | None]]
    _local: Callable[[], Permit]
    _is_local: bool = False

    async def take(self) -> float:
        if self._use_lease():
            return 0.0
        async with self._lease.lock:
            return 0.0 if self._use_lease() else await self._take_lease()  # another call may have leased meanwhile

    def _use_lease(self) -> bool:
        """Take a permit of the lease. Return whether it has one."""
        lease = self._lease
        if not lease.count or self._clock() >= lease.ends:
            return False
        lease.count -= 1
        return True

    def remaining(self) -> tuple[int, float]:
        if self._is_local:
            return self._local().remaining()
        lease, span = self._lease, self._burst * self._interval
        owed = min(max(0.0, lease.owed - (self._clock() - lease.asked_at)), span)
        free = int((span - owed + _ROUNDING) / self._interval)
        # What cannot be used any more is given back before more are taken.
        return min(self._burst, max(0, free) + lease.count), round(max(0.0, owed - lease.count * self._interval), 6)

    async def _take_lease(self) -> float:
        """Give back what was not used, and take a lease and a permit of it."""
        lease = self._lease
        unused, lease.count = lease.count, 0  # at once: where the answer is lost, they may have been given back
        answer = await self._ask(unused)
        self._is_local = answer is None
        if answer is None:
            return await self._local().take()
        taken, owed = answer
        lease.asked_at, lease.owed = self._clock(), owed
        if taken:
            lease.count = taken - 1
            lease.ends = lease.asked_at + LIFE
            return 0.0
        return round(owed - (self._burst - 1) * self._interval, 6)
