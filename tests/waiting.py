"""Bounded waits, in real time, for what tells nobody that it has happened: another process, a timer, the collector."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, overload

PATIENCE: Final = 90.0
"""Seconds. A machine at ten times its load is slower by as much: no test asserts by this how long something takes. A
wait that fails says what it saw, a test that pyproject.toml's ``timeout`` ends does not: so this is shorter by what
fixtures and the rest of a test take."""
_PAUSE: Final = 0.01

Seen = TypeVar("Seen")


@overload
async def until(
    look: Callable[[], Awaitable[Seen]], right: Callable[[Seen], object] = bool, within: float = PATIENCE
) -> Seen: ...
@overload
async def until(look: Callable[[], Seen], right: Callable[[Seen], object] = bool, within: float = PATIENCE) -> Seen: ...
async def until(look: Callable[[], Any], right: Callable[[Any], object] = bool, within: float = PATIENCE) -> Any:
    """Look again and again until what is seen is right, and return it. Raise TimeoutError after ``within`` seconds."""
    seen = None
    try:
        async with asyncio.timeout(within):
            while True:
                found = look()
                seen = await found if inspect.isawaitable(found) else found
                if right(seen):
                    return seen
                await asyncio.sleep(_PAUSE)
    except TimeoutError as error:
        raise TimeoutError(f"what was seen last within {within} s is not right: {seen!r}") from error


def wait_until(holds: Callable[[], object], within: float = PATIENCE) -> None:
    """Return once something holds, while nothing else runs. Raise TimeoutError after ``within`` seconds."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"it does not hold within {within} s")
        time.sleep(_PAUSE)
