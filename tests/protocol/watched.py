"""A backend method that a test holds back, and sees the end of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.fault.behaviours import SUM, Exchange
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from tests.fault.behaviours import Body


class Watched:
    """Answers once it is released. Afterwards it was ``finished``, or ``abandoned`` by a caller that hung up."""

    def __init__(self, answer: Body = SUM) -> None:
        self._answer = answer
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._released = asyncio.Event()
        self.finished = False

    async def play(self, exchange: Exchange) -> None:
        self._begun.set()
        if await exchange.wait(self._released):
            await self._answer.play(exchange)
            self.finished = True
        self._over.set()

    def release(self) -> None:
        self._released.set()

    async def begun(self) -> None:
        """Return once the call is there."""
        async with asyncio.timeout(PATIENCE):
            await self._begun.wait()

    async def over(self) -> str:
        """How it ended: ``finished`` or ``abandoned``."""
        async with asyncio.timeout(PATIENCE):
            await self._over.wait()
        return "finished" if self.finished else "abandoned"

    @property
    def under_way(self) -> bool:
        return self._begun.is_set() and not self._over.is_set()
