"""How many exchanges and calls are under way with one thing that may be replaced meanwhile."""

from __future__ import annotations

import asyncio


class Uses:
    """Counts what is under way with one service, so that a replaced one is closed after its last call, not before.

    ``with uses:`` counts one.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        return f"<Uses: {self._under_way} under way>"

    def __enter__(self) -> None:
        self._under_way += 1
        self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self._idle.set()

    async def ended(self) -> None:
        """Return once nothing is under way."""
        await self._idle.wait()
