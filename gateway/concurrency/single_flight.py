"""Run work once for all callers at a time, in a task of its own: a caller's cancellation does not end it for others."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SingleFlight(Generic[Key, Value]):
    """Hold the work under way, at most one task for each key. Results are not kept."""

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[Value]] = {}

    def __repr__(self) -> str:
        return f"<SingleFlight {len(self._tasks)} under way>"

    def __contains__(self, key: Key) -> bool:
        return key in self._tasks and not self._tasks[key].done()

    def start(self, key: Key, work: Callable[[], Coroutine[Any, Any, Value]]) -> asyncio.Task[Value]:
        """Return the task under way for the key, or one that begins ``work``. Do not cancel it."""
        if key not in self:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda task: self._end(key, task))
        return self._tasks[key]

    async def join(self, key: Key, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Return the result of the task under way for the key, or else of ``work``. Raises what that raises."""
        return await outcome_of(self.start(key, work))

    def _end(self, key: Key, task: asyncio.Task[Value]) -> None:
        if self._tasks.get(key) is task:  # another task may have been started since
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # mark it as retrieved: asyncio logs others, if all callers were cancelled


async def outcome_of(task: asyncio.Task[Value]) -> Value:
    """Return the result of a task, or raise what it raises. A caller's cancellation does not end it."""
    await asyncio.wait([task])  # unlike an await of the task itself
    return task.result()
