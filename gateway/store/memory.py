"""A store within one process: enough for one replica, and the default."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cachetools import TLRUCache

MAX_KEYS: Final = 100_000


class MemoryStore:
    """Keys in memory, at most :data:`MAX_KEYS`; beyond that the least recently used are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MAX_KEYS) -> None:
        self._keys: TLRUCache[str, float] = TLRUCache(most, ttu=lambda _, ttl, now: now + ttl, timer=clock)

    async def add(self, key: str, ttl: float) -> bool:
        if key in self._keys:
            return False
        self._keys[key] = ttl
        return True

    async def has(self, key: str) -> bool:
        return key in self._keys
