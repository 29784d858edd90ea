"""Keep the running calls of the older era, so that clients can cancel them: ``notifications/cancelled`` names a call by
its request's id (2025-11-25, basic/utilities/cancellation)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from gateway.jsonrpc import Id
from gateway.telemetry.request_log import RECORD

Result = TypeVar("Result")
_Key: TypeAlias = tuple[str, Id]


class RunningCalls:
    """Hold the calls of one mount until they are over. A call may outlive its client's connection.

    This object belongs to the mount, not to the service: after a reload has swapped the service, a client may still
    cancel an earlier call. Therefore it knows tasks only, and nothing of what they run.

    The key of a call is its session and its request id, since many clients choose the same ids. A call without a
    session (None) cannot be cancelled by a notification.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._preparing: dict[_Key, asyncio.Event] = {}
        self._running: dict[_Key, asyncio.Task[Any]] = {}

    def __repr__(self) -> str:
        return f"<RunningCalls: {len(self._preparing)} preparing, {len(self._tasks)} running>"

    @contextmanager
    def preparing(self, session: str | None, id: Id) -> Iterator[asyncio.Event]:
        """Yield an event that is set if the client cancels the call before :meth:`start`."""
        cancelled = asyncio.Event()
        if session is None:
            yield cancelled
            return
        key = (session, id)
        self._preparing[key] = cancelled
        try:
            yield cancelled
        finally:
            if self._preparing.get(key) is cancelled:  # a client may reuse an id, although MCP forbids it
                del self._preparing[key]

    def start(
        self, work: Coroutine[Any, Any, Result], session: str | None, id: Id, end: asyncio.Future[None] | None = None
    ) -> asyncio.Task[Result]:
        """Run a call as a task, which continues when its client has hung up. ``end`` is done once the call is over; it
        is what the client waits for, in place of ``asyncio.shield`` and its callbacks."""
        task = asyncio.create_task(work)
        memory = RECORD.get().memory
        memory.users += 1
        self._tasks.add(task)
        key = None if session is None else (session, id)
        if key is not None:
            self._running[key] = task

        def forget(_: object) -> None:
            if end is not None and not end.done():
                end.set_result(None)
            self._tasks.discard(task)
            if key is not None and self._running.get(key) is task:
                del self._running[key]
            memory.end()
            if not task.cancelled():
                task.exception()  # read it, or asyncio logs it as never retrieved

        task.add_done_callback(forget)
        return task

    def cancel(self, session: str, id: Id) -> bool:
        """Cancel a call that is being prepared or runs. Return False where there is none: it may be over already, or
        run on another replica."""
        key = (session, id)
        if key in self._preparing:
            self._preparing[key].set()
        elif key in self._running:
            self._running[key].cancel()
        else:
            return False
        return True

    async def close(self) -> None:
        """Cancel all running calls and wait until they are over."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
