"""Keep the store in the memory of one process: enough for one replica, and the default."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cachetools import TLRUCache

from gateway.concurrency.background import Problem
from gateway.store import MAX_DOCUMENT, MAX_NOTICE, purpose_of

MAX_KEYS: Final = 100_000
MAX_DOCUMENTS: Final = 8 * MAX_DOCUMENT
"""Bytes of all documents."""
_ROUNDING: Final = 1e-6
"""Seconds, more than the rounding error of sums of clock times: a shorter wait counts as none."""
_MICROSECONDS: Final = 1e6


class MemoryStore:
    """Keep at most ``most`` markers and as many permits of each purpose, and :data:`MAX_DOCUMENTS` bytes. Beyond that,
    the least recently used markers and documents are forgotten, and permits as :class:`SpentBursts` says. ``clock`` is
    seconds."""

    is_shared: Final = False
    commands: Final = 0
    leased: Final = 0

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MAX_KEYS) -> None:
        self._clock = clock
        self._markers: defaultdict[str, TLRUCache[str, float]] = defaultdict(
            lambda: TLRUCache(most, ttu=lambda _, until, __: until, timer=clock)
        )
        self._spent_bursts = defaultdict[str, SpentBursts](lambda: SpentBursts(clock, most))
        self._documents: TLRUCache[str, tuple[bytes, float]] = TLRUCache(
            MAX_DOCUMENTS,
            ttu=lambda _, document, now: now + document[1],
            timer=clock,
            getsizeof=lambda document: len(document[0]),
        )
        self._locks: TLRUCache[str, tuple[str, float]] = TLRUCache(
            most, ttu=lambda _, lock, now: now + lock[1], timer=clock
        )
        self._subscribers: dict[str, list[Callable[[bytes], None]]] = {}
        self.problem = Problem()

    async def open(self) -> None:
        """Do nothing: memory is there."""

    async def close(self) -> None:
        """Do nothing."""

    async def add(self, key: str, ttl: float) -> bool:
        keys = self._keys(key)
        if key in keys:
            return False
        keys[key] = self._clock() + ttl
        return True

    async def mark(self, key: str, ttl: float) -> None:
        self.end_mark(key)  # a mark for no time would leave an earlier one
        self._keys(key)[key] = self._clock() + ttl

    def end_mark(self, key: str) -> None:
        self._keys(key).pop(key, None)

    async def has(self, key: str) -> bool:
        return key in self._keys(key)

    def marked(self) -> dict[str, float]:
        """Return all keys that are marked, each with the clock time until which it is."""
        return {key: until for keys in self._markers.values() for key, until in keys.items()}

    async def get(self, key: str) -> bytes | None:
        document = self._documents.get(key)
        return None if document is None else document[0]

    async def put(self, key: str, value: bytes, ttl: float) -> bool:
        if len(value) > MAX_DOCUMENT:
            return False
        self._documents[key] = value, ttl
        return True

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
        if self._locks.get(key, ("",))[0] != token:
            return ""
        own = token or secrets.token_hex(8)
        self._locks[key] = own, ttl
        return own

    async def release(self, key: str, token: str) -> None:
        if self._locks.get(key, (None,))[0] == token:
            del self._locks[key]

    async def publish(self, topic: str, notice: bytes) -> bool:
        self.deliver(topic, notice)
        return True

    def deliver(self, topic: str, notice: bytes) -> None:
        """Give a notice to the subscribers of its topic. Raises :class:`ValueError` for one that is too large."""
        if len(notice) > MAX_NOTICE:
            raise ValueError(f"a notice of {len(notice)} bytes: at most {MAX_NOTICE} are passed on")
        for receive in tuple(self._subscribers.get(topic, ())):
            receive(notice)

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        self._subscribers.setdefault(topic, []).append(receive)

        def unsubscribe() -> None:
            subscribers = self._subscribers.get(topic, [])
            if receive in subscribers:
                subscribers.remove(receive)
            if not subscribers:
                self._subscribers.pop(topic, None)

        return unsubscribe

    def permit(self, key: str, rate: float, burst: int) -> MemoryPermit:
        return MemoryPermit(self._spent_bursts[purpose_of(key)], key, rate, burst)

    def _keys(self, key: str) -> TLRUCache[str, float]:
        return self._markers[purpose_of(key)]


@dataclass(slots=True, eq=False)
class SpentBurst:
    """Hold what one key has spent of its burst: ``until`` is the clock time at which it has the whole burst again. Once
    it is ``forgotten``, a handle has to look up the key again."""

    until: float
    forgotten: bool = False


class SpentBursts:
    """Hold the spent bursts of many keys, at most ``most``.

    New keys make room by dropping keys that have their whole burst again, which equal new keys. Where the oldest keys
    still wait, a new key evicts the oldest one **and takes over its ``until``**. So an attacker with more keys than
    there is room (a large IPv6 network) gets no fresh bursts by making the gateway forget. Callers that are new or
    evicted meanwhile wait at worst as if they had just used up their own burst.
    """

    def __init__(self, clock: Callable[[], float], most: int) -> None:
        self.clock = clock
        self._most = most
        # No cache of cachetools does this: a new key has to take over the ``until`` of the one that it evicts.
        self._by_key: OrderedDict[str, SpentBurst] = OrderedDict()

    def find(self, key: str) -> SpentBurst:
        spent = self._by_key.get(key)
        if spent is None:
            spent = self._by_key[key] = SpentBurst(self._make_room())
        else:
            self._by_key.move_to_end(key)
        return spent

    def _make_room(self) -> float:
        """Return the ``until`` of a new key: now, or that of the key that it evicts."""
        now = self.clock()
        for key in tuple(islice(self._by_key, 2)):  # two for each new key, so that memory shrinks after a flood
            if self._by_key[key].until <= now:
                self._drop(key)
            else:
                self._by_key.move_to_end(key)  # it may be in use: a kept handle takes permits without a look-up
        return self._drop(next(iter(self._by_key))) if len(self._by_key) >= self._most else now

    def _drop(self, key: str) -> float:
        spent = self._by_key.pop(key)
        spent.forgotten = True
        return spent.until


class MemoryPermit:
    """Implement :class:`gateway.store.Permit`. What a key has spent is one number: the time at which it has its whole
    burst again (the theoretical arrival time of the algorithm)."""

    __slots__ = ("_clock", "_interval", "_key", "_span", "_spent", "_spent_bursts")

    def __init__(self, spent_bursts: SpentBursts, key: str, rate: float, burst: int) -> None:
        self._spent_bursts = spent_bursts
        self._spent = spent_bursts.find(key)
        self._key = key
        self._clock = spent_bursts.clock
        self._interval = 1 / rate
        self._span = burst / rate

    async def take(self) -> float:
        spent = self._spent
        if spent.forgotten:
            spent = self._spent = self._spent_bursts.find(self._key)
        now = self._clock()
        until = spent.until
        if until < now:
            until = now
        elif until > now + self._span:  # spent at a slower rate, before a reload changed it
            until = spent.until = now + self._span
        until += self._interval
        wait = until - now - self._span
        if wait > _ROUNDING:
            return round(wait, 6)
        spent.until = until
        return 0.0

    def remaining(self) -> tuple[int, float]:
        owed = self._spent.until - self._clock()
        if owed < 0.0:
            owed = 0.0
        elif owed > self._span:
            owed = self._span
        # round() would go by way of the number's text, which takes ten times as long.
        return int((self._span - owed + _ROUNDING) / self._interval), int(owed * _MICROSECONDS + 0.5) / _MICROSECONDS
