"""Calls that a client of an older era can still cancel: ``notifications/cancelled`` names one by its request's id
(2025-11-25, basic/utilities/cancellation)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from gateway.jsonrpc import Id

Result = TypeVar("Result")
_Key: TypeAlias = tuple[str, Id]


class RunningCalls:
    """Hold the calls of one mount until they are over, so that they outlive their clients and can be cancelled by name.

    It belongs to the mount, not to the service behind it: a reload swaps the service, and a client may then cancel a
    call that was begun before. So it knows tasks alone, and nothing of what they run.

    A call is named by the session and the id of its request, since many clients choose the same ids. One without a
    session (None) cannot be cancelled by name.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._preparing: dict[_Key, asyncio.Event] = {}
        self._running: dict[_Key, asyncio.Task[Any]] = {}

    def __repr__(self) -> str:
        return f"<RunningCalls: {len(self._preparing)} preparing, {len(self._tasks)} running>"

    @contextmanager
    def preparing(self, session: str | None, id: Id) -> Iterator[asyncio.Event]:
        """Yield what is set where the client cancels the call before it is started."""
        cancelled = asyncio.Event()
        if session is None:
            yield cancelled
            return
        key = (session, id)
        self._preparing[key] = cancelled
        try:
            yield cancelled
        finally:
            if self._preparing.get(key) is cancelled:  # a client may use an id again, although it must not
                del self._preparing[key]

    def start(self, work: Coroutine[Any, Any, Result], session: str | None, id: Id) -> asyncio.Task[Result]:
        """Run a call as a task. It goes on where nobody awaits it any more."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        key = None if session is None else (session, id)
        if key is not None:
            self._running[key] = task

        def forget(_: object) -> None:
            self._tasks.discard(task)
            if key is not None and self._running.get(key) is task:
                del self._running[key]
            if not task.cancelled():
                task.exception()  # a refusal whose client is gone has nobody to go to

        task.add_done_callback(forget)
        return task

    def cancel(self, session: str, id: Id) -> None:
        """Cancel a call, being prepared or running. One that is not here any more is no fault."""
        key = (session, id)
        if key in self._preparing:
            self._preparing[key].set()
        elif key in self._running:
            self._running[key].cancel()

    async def close(self) -> None:
        """Cancel all calls that run, and wait until they are over."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
