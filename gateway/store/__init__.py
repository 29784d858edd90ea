"""What outlives the objects of one service, and what replicas will share: facts that expire, and permits.

A key is any text. What it has before its first colon is its purpose, such as ``dpop`` in ``dpop:…``, of which there are
few. Keys of one purpose do not push out those of another.
"""

from __future__ import annotations

import hashlib
from typing import Protocol


class Permit(Protocol):
    """Permits of one key: a full ``burst`` at first, then ``rate`` more a second up to the burst. This is the generic
    cell rate algorithm (ITU-T I.371)."""

    async def take(self, n: int = 1) -> float:
        """Take ``n`` permits, all or none. 0.0 where they were taken, else the seconds, to the microsecond, after which
        they can be, if nobody else takes any meanwhile. Raises :class:`ValueError` unless 1 <= ``n`` <= burst."""
        ...


class Store(Protocol):
    """Markers with a lifetime, and permits."""

    async def add(self, key: str, ttl: float) -> bool:
        """Put the key there for ``ttl`` seconds; False if it was there already. Of several at once, one hears True."""
        ...

    async def has(self, key: str) -> bool:
        """Tell whether the key is there."""
        ...

    def permit(self, key: str, rate: float, burst: int) -> Permit:
        """The permits of a key, ``rate`` a second and at most ``burst`` at once. The caller may keep the handle.

        All handles of one key share what was taken, those with another rate or burst too: whoever has none left waits
        at the new rate, and never longer than somebody who has just taken a whole new burst.
        """
        ...


def purpose_of(key: str) -> str:
    return key.partition(":")[0] if ":" in key else ""


class ResourceStore:
    """A store as one protected resource sees it. The resource is part of every key, as a digest: nothing of one service
    counts at another. It is part of the purpose, so that a flood at one service pushes out nothing of another."""

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
