"""A store within one process: enough for one replica, and the default."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cachetools import TLRUCache

MAX_KEYS: Final = 100_000


class MemoryStore:
    """Keys in memory, at most :data:`MAX_KEYS` of each purpose, which is what a key has before its colon; beyond that
    the least recently used are forgotten. Ended sessions in great number do not push out used proofs and consents."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MAX_KEYS) -> None:
        self._clock = clock
        self._most = most
        self._purposes: dict[str, TLRUCache[str, float]] = {}

    async def add(self, key: str, ttl: float) -> bool:
        keys = self._keys(key)
        if key in keys:
            return False
        keys[key] = ttl
        return True

    async def has(self, key: str) -> bool:
        return key in self._keys(key)

    def _keys(self, key: str) -> TLRUCache[str, float]:
        purpose = key.partition(":")[0] if ":" in key else ""
        keys = self._purposes.get(purpose)
        if keys is None:
            keys = TLRUCache(self._most, ttu=lambda _, ttl, now: now + ttl, timer=self._clock)
            self._purposes[purpose] = keys
        return keys
