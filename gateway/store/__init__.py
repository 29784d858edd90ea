"""What replicas share: facts that expire."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """Keys that are there for a while. ``ttl`` is in seconds."""

    async def add(self, key: str, ttl: float) -> bool:
        """Put the key there; False if it was there already. Of several at once, one hears True."""
        ...

    async def has(self, key: str) -> bool:
        """Whether the key is there."""
        ...
