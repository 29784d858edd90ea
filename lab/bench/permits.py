"""What a permit of the store in memory costs, in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from gateway.store.memory import MemoryStore

_TAKEN = 100_000
_REPEATS = 5


def microseconds_per_permit() -> tuple[list[float], list[float]]:
    """With a handle that is kept, and with one that is asked for each time; one figure per repeat, less what awaiting
    anything at all costs."""
    return asyncio.run(_measure())


async def _measure() -> tuple[list[float], list[float]]:
    store = MemoryStore()
    permit = store.permit("bench:caller", _TAKEN, 10**9)

    async def nothing() -> None: ...

    async def kept() -> None:
        _served(await permit.take())

    async def asked_for() -> None:
        _served(await store.permit("bench:caller", _TAKEN, 10**9).take())

    figures: tuple[list[float], list[float]] = [], []
    for _ in range(_REPEATS):
        empty, *full = [await _seconds(work) for work in (nothing, kept, asked_for)]
        for way, seconds in zip(figures, full, strict=True):
            way.append((seconds - empty) / _TAKEN * 1e6)
    return figures


def _served(wait: float) -> None:
    if wait:
        raise ValueError("what is measured is a permit that is there")


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    for _ in range(_TAKEN):
        await work()
    return time.perf_counter() - started
