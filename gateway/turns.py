"""Give other tasks of the event loop a turn while one of them computes for long: large listings, catalogs, results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Any, Final

_SLICE: Final = 0.005
"""Seconds of work after which other tasks get a turn."""


class Turns:
    """Count the time of one long piece of work, from its beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def give(self) -> None:
        """Give other tasks a turn, if this one has worked for its slice."""
        if time.monotonic() - self._began > _SLICE:
            await asyncio.sleep(0)
            self._began = time.monotonic()


async def run_in_turns(steps: Generator[None, None, Any]) -> Any:
    """Return the value of the generator. Other tasks may get a turn where it yields."""
    turns = Turns()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await turns.give()
