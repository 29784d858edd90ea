"""Work that many want at once and that runs once.

Who hangs up while waiting does not end the work for the others, so it runs in a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SingleFlight(Generic[Key, Value]):
    """Hold the work under way, at most one piece for each key. Nothing is kept once it is over."""

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[Value]] = {}

    def __repr__(self) -> str:
        return f"<SingleFlight {len(self._tasks)} under way>"

    def __contains__(self, key: Key) -> bool:
        """Tell whether work for the key is under way."""
        return key in self._tasks and not self._tasks[key].done()

    def start(self, key: Key, work: Callable[[], Coroutine[Any, Any, Value]]) -> asyncio.Task[Value]:
        """Return the task under way for the key, or one that begins ``work``. Do not cancel it."""
        if key not in self:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda task: self._end(key, task))
        return self._tasks[key]

    async def join(self, key: Key, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Return what the work under way for the key comes to, or else ``work``. Raises what it raises."""
        task = self.start(key, work)
        await asyncio.wait([task])  # unlike an await of the task itself, this does not cancel it with the caller
        return task.result()

    def _end(self, key: Key, task: asyncio.Task[Value]) -> None:
        if self._tasks.get(key) is task:  # another one may have begun since
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # asyncio would log a failure whose callers have all hung up
