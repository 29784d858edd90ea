"""Share the turns of the event loop: give other tasks one while one of them computes for long (large listings,
catalogs, results), and do together at the end of one what is cheaper together (decision 44)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, Final

SLICE: Final = 0.005
"""Seconds of work after which other tasks get a turn."""
_TOGETHER: Final = 8
"""Most functions that follow each other. More would gain nothing, and the first would wait longer."""


class Turns:
    """Count the time of one long piece of work, from its beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def give(self) -> None:
        """Give other tasks a turn, if this one has worked for its slice."""
        if time.monotonic() - self._began > SLICE:
            await asyncio.sleep(0)
            self._began = time.monotonic()


class Together:
    """Call functions one behind the other, once the tasks whose turn it is have had it, or :data:`_TOGETHER` functions
    wait. Make it and use it in one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        waiting = self._waiting
        if not waiting:
            self._loop.call_soon(self._call_all, waiting)
        waiting.append((function, arguments))
        if len(waiting) >= _TOGETHER:
            self._call_all(waiting)

    def _call_all(self, waiting: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        if waiting is self._waiting:
            self._waiting = []
        for function, arguments in waiting:
            try:
                function(*arguments)
            except Exception as error:  # noqa: BLE001, the others have their turn
                self._loop.call_exception_handler({"message": "a call of the turn failed", "exception": error})
        waiting.clear()


async def run_in_turns(steps: Generator[None, None, Any]) -> Any:
    """Return the value of the generator. Other tasks may get a turn where it yields."""
    turns = Turns()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await turns.give()


def run_at_once(steps: Generator[None, None, Any]) -> Any:
    """Return the value of the generator, which gives no other task a turn."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
