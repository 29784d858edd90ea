"""Let those who wait for a turn go by callers, so that nobody's many make others wait."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct


class Waiter(Struct, eq=False):
    """Hold one that waits: of whom, for which tool, and the future of its turn."""

    caller: Hashable
    tool: Hashable
    turn: asyncio.Future[Any]


AnyWaiter = TypeVar("AnyWaiter", bound=Waiter)


class WaitingLines(Generic[AnyWaiter]):
    """Hold those that wait: a line for each caller and tool. Callers stand in the order of their turns, and so do the
    tools of each caller. ``lengths`` and ``tools`` say how many wait of each caller, and for each tool."""

    def __init__(self) -> None:
        self.lengths: Counter[Hashable] = Counter()
        self.tools: Counter[Hashable] = Counter()
        self.callers: dict[Hashable, dict[Hashable, deque[AnyWaiter]]] = {}
        self.total = 0

    def add(self, waiter: AnyWaiter) -> None:
        """Add a waiter at the end of its line."""
        self.callers.setdefault(waiter.caller, {}).setdefault(waiter.tool, deque()).append(waiter)
        self._count(waiter, 1)

    def of_tool(self, tool: Hashable) -> Iterator[AnyWaiter]:
        """Yield those of all callers that wait for a tool."""
        for tools in self.callers.values() if tool in self.tools else ():
            yield from tools.get(tool, ())

    def pop_next(
        self, has_room: Callable[[Hashable], bool], may_go: Callable[[Hashable, Hashable], bool]
    ) -> AnyWaiter | None:
        """Remove and return the first waiter whose tool ``has_room`` and that ``may_go``. Its caller and tool are then
        the last in the order."""
        # Each tool is looked at once: thousands may wait for one that hangs.
        open_tools = {tool for tool in self.tools if has_room(tool)}
        if not open_tools:
            return None
        for caller, tools in self.callers.items():
            for tool, line in tools.items():
                if tool in open_tools and may_go(caller, tool):
                    self.callers[caller] = self.callers.pop(caller)
                    tools[tool] = tools.pop(tool)
                    waiter = line[0]
                    self.discard(waiter)
                    return waiter
        return None

    def surplus(self, caller: Hashable) -> AnyWaiter | None:
        """Return whom to refuse so that one more of ``caller`` can wait: the last waiter in the longest line of the
        caller with the most waiters, of equal lines in the last. None where that caller has no more than this one."""
        most = max(self.lengths, key=self.lengths.__getitem__)
        if self.lengths[most] <= self.lengths[caller] + 1:
            return None
        return max(reversed(self.callers[most].values()), key=len)[-1]

    def discard(self, waiter: AnyWaiter) -> None:
        """Remove a waiter, if it is still there."""
        tools = self.callers.get(waiter.caller, {})
        line = tools.get(waiter.tool)
        if line is None or waiter not in line:
            return
        line.remove(waiter)
        if not line:
            del tools[waiter.tool]
        if not tools:
            del self.callers[waiter.caller]
        self._count(waiter, -1)

    def _count(self, waiter: AnyWaiter, change: int) -> None:
        self.total += change
        for counter, key in ((self.lengths, waiter.caller), (self.tools, waiter.tool)):
            counter[key] += change
            if not counter[key]:
                del counter[key]
