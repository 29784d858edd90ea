"""Callers before a queue of the gateway's (:class:`gateway.backend.queue.FairQueue`)."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from gateway.backend.queue import FairQueue, NoTurn, QueueFull, Slot
from tests.manual_clock import ManualClock

PATIENCE = 5.0


class Stand:
    """Callers before a queue. ``served`` has who got a slot, in order, ``slots`` their slots, the latest last."""

    def __init__(self, connections: int, most_waiting: int = 1000) -> None:
        self.clock = ManualClock()
        self.queue = FairQueue(connections, self.clock, most_waiting)
        self.served: list[tuple[Hashable, Hashable]] = []
        self.slots: dict[tuple[Hashable, Hashable], list[Slot]] = {}
        self.refused: list[tuple[Hashable, type[Exception]]] = []
        self.tasks: dict[asyncio.Task[None], tuple[Hashable, Hashable]] = {}

    @property
    def waiting(self) -> list[tuple[Hashable, Hashable]]:
        return [pair for task, pair in self.tasks.items() if not task.done()]

    async def come(self, caller: Hashable, tool: Hashable, times: int = 1) -> None:
        """Let a caller call a tool; it waits where it must."""
        for _ in range(times):
            self.tasks[asyncio.create_task(self._call(caller, tool))] = (caller, tool)
        await settle()

    async def hang_up(self, number: int) -> None:
        """Cancel the call that came as this one."""
        list(self.tasks)[number].cancel()
        await settle()

    async def free(self, caller: Hashable, tool: Hashable, *, answered: bool = True) -> None:
        self.queue.free(self.slots[caller, tool].pop(), answered=answered)
        await settle()

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _call(self, caller: Hashable, tool: Hashable) -> None:
        try:
            slot = await self.queue.take(caller, tool, PATIENCE)
        except (NoTurn, QueueFull) as failure:
            self.refused.append((caller, type(failure)))
            return
        self.served.append((caller, tool))
        self.slots.setdefault((caller, tool), []).append(slot)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
