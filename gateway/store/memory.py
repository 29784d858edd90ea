"""A store within one process: enough for one replica, and the default."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final

from cachetools import TLRUCache

from gateway.store import purpose_of

MAX_KEYS: Final = 100_000
_ROUNDING: Final = 1e-6
"""Seconds by which sums of clock times may be off, and more: a wait as short as this is none."""


class MemoryStore:
    """Keys in memory, at most ``most`` markers and as many permits of each purpose. Of more markers the least recently
    used are forgotten, of more permits what :class:`Debts` says. ``clock`` is seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MAX_KEYS) -> None:
        self._clock = clock
        self._most = most
        self._markers: dict[str, TLRUCache[str, float]] = {}
        self._debts: dict[str, Debts] = {}

    async def add(self, key: str, ttl: float) -> bool:
        keys = self._keys(key)
        if key in keys:
            return False
        keys[key] = ttl
        return True

    async def has(self, key: str) -> bool:
        return key in self._keys(key)

    def permit(self, key: str, rate: float, burst: int) -> MemoryPermit:
        purpose = purpose_of(key)
        debts = self._debts.get(purpose)
        if debts is None:
            debts = self._debts[purpose] = Debts(self._clock, self._most)
        return MemoryPermit(debts, key, rate, burst)

    def _keys(self, key: str) -> TLRUCache[str, float]:
        purpose = purpose_of(key)
        keys = self._markers.get(purpose)
        if keys is None:
            keys = TLRUCache(self._most, ttu=lambda _, ttl, now: now + ttl, timer=self._clock)
            self._markers[purpose] = keys
        return keys


class Debt:
    """What one key has taken and not yet got back: ``until`` is when it will have all again. A ``forgotten`` one counts
    no longer; the key has to be looked up again."""

    __slots__ = ("forgotten", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.forgotten = False


class Debts:
    """The debts of many keys, at most ``most``.

    A debt that is over is dropped when new keys come: to be new and to owe nothing are the same, so nobody gains or
    loses by it. Where there is no room and the oldest owe something still, a new key takes the place of an old one
    **and its debt**. So whoever has more keys than there is room (a large IPv6 network) gets no fresh bursts by making
    the gateway forget: what was taken stays taken, whichever key asks next. The price is paid by callers that are new
    or pushed out during such an attack: they begin with that debt, and wait at worst as if they had just used up their
    own burst.
    """

    def __init__(self, clock: Callable[[], float], most: int) -> None:
        self.clock = clock
        self._most = most
        # None of cachetools: the oldest are looked at first, and what goes leaves something behind.
        self._debts: OrderedDict[str, Debt] = OrderedDict()

    def of(self, key: str) -> Debt:
        debt = self._debts.get(key)
        if debt is None:
            debt = self._debts[key] = Debt(self._make_room())
        else:
            self._debts.move_to_end(key)
        return debt

    def _make_room(self) -> float:
        """The debt that a new key begins with: the time until which it lasts."""
        now = self.clock()
        for key in tuple(islice(self._debts, 2)):  # more than come, so that after a flood the memory is given back
            if self._debts[key].until <= now:
                self._drop(key)
            else:
                self._debts.move_to_end(key)  # who keeps a handle takes without a look-up
        return self._drop(next(iter(self._debts))) if len(self._debts) >= self._most else now

    def _drop(self, key: str) -> float:
        debt = self._debts.pop(key)
        debt.forgotten = True
        return debt.until


class MemoryPermit:
    """See :class:`gateway.store.Permit`. What a key has taken is one number: when it will have its whole burst again
    (the theoretical arrival time of the algorithm)."""

    __slots__ = ("_burst", "_clock", "_debt", "_debts", "_interval", "_key", "_span")

    def __init__(self, debts: Debts, key: str, rate: float, burst: int) -> None:
        self._debts = debts
        self._debt = debts.of(key)
        self._key = key
        self._clock = debts.clock
        self._burst = burst
        self._interval = 1 / rate
        self._span = burst / rate

    async def take(self, n: int = 1) -> float:
        if not 0 < n <= self._burst:
            raise ValueError(f"of a burst of {self._burst}, {n} cannot be taken at once")
        debt = self._debt
        if debt.forgotten:
            debt = self._debt = self._debts.of(self._key)
        now = self._clock()
        until = debt.until
        if until < now:
            until = now
        elif until > now + self._span:  # taken at a slower rate, which holds no longer
            until = debt.until = now + self._span
        until += n * self._interval
        wait = until - now - self._span
        if wait > _ROUNDING:
            return round(wait, 6)
        debt.until = until
        return 0.0
