"""Define the interface of the store: markers that expire, and permits. They outlive a reload; replicas may share them.

A key is any text. The part before its first colon is its purpose, such as ``dpop`` in ``dpop:…``. There are few
purposes. Keys of one purpose never evict keys of another.
"""

from __future__ import annotations

import hashlib
from typing import Protocol


class Permit(Protocol):
    """Give out the permits of one key: a full ``burst`` at first, then ``rate`` more per second, up to the burst. This
    is the generic cell rate algorithm (ITU-T I.371)."""

    async def take(self, n: int = 1) -> float:
        """Take ``n`` permits, all or none. Return 0.0 where they were taken, else the seconds after which they are free
        if no other caller takes any, to the microsecond. Raises :class:`ValueError` unless 1 <= ``n`` <= burst."""
        ...

    def remaining(self) -> tuple[int, float]:
        """How many permits there are after the last :meth:`take`, and after how many seconds the whole burst will be
        there, if nobody takes any meanwhile."""
        ...


class Store(Protocol):
    """Keep markers with a lifetime, and permits."""

    async def add(self, key: str, ttl: float) -> bool:
        """Mark the key for ``ttl`` seconds. Return False if it was marked. Of concurrent callers one gets True."""
        ...

    async def has(self, key: str) -> bool:
        """Tell whether the key is marked."""
        ...

    def permit(self, key: str, rate: float, burst: int) -> Permit:
        """Return a handle on the permits of a key: ``rate`` per second, at most ``burst`` at once. It may be kept.

        All handles of one key share what was taken, also those with another rate or burst. After a change of the rate a
        caller without permits waits at the new rate, and at most as long as after a whole new burst.
        """
        ...


def purpose_of(key: str) -> str:
    """Return the part of a key before its first colon, "" without a colon."""
    return key.partition(":")[0] if ":" in key else ""


class ResourceStore:
    """Give one protected resource its own part of a store. The resource's digest is part of every key, so that services
    do not count each other's. It is part of the purpose, so that a flood at one service evicts no key of another."""

    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._resource = hashlib.sha256(resource.encode()).hexdigest()[:32]

    async def add(self, key: str, ttl: float) -> bool:
        return await self._store.add(self._own(key), ttl)

    async def has(self, key: str) -> bool:
        return await self._store.has(self._own(key))

    def permit(self, key: str, rate: float, burst: int) -> Permit:
        return self._store.permit(self._own(key), rate, burst)

    def _own(self, key: str) -> str:
        return f"{purpose_of(key)} {self._resource}:{key}"
