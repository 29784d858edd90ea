"""Decide which exchange with the service is next, so that no caller and no tool makes the others wait.

Each exchange takes one of ``connections`` slots. Some slots are kept for listings. The rules for the others:

- One caller gets at most a third of them, and one tool a third. A slot cannot be taken back, so calls that hang must
  never hold all slots. A tool that answered within the last second may hold two thirds.
- Of a tool's third, one caller gets at most half, but at least one slot. So calls of one caller that hang leave the
  others of the tool their half.
- A call that finds no slot waits. Callers are served in turn. The calls of one caller for different tools are too.
- When too many wait, the last call of the longest line is refused.

A listing takes a slot that is kept for listings, one for each caller. It may take one of the others, like a call of a
tool with the name "listing", in two cases: it asks several questions at once, or the service has answered none of the
kept slots for a second. So listings that hang keep no new caller waiting, and a rush of callers is no rush on the
service.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable
from typing import Final

from msgspec import Struct

from gateway.concurrency.lines import Waiter, WaitingLines
from gateway.http_client.response import NoConnection, OutboundError

MOST_WAITING: Final = 1_000
FOR_LISTINGS: Final = 4
"""Slots that are kept for listings; a quarter of all where there are fewer than 16."""
LIVELY: Final = 1.0
"""Seconds after its last answer in which a tool may hold two thirds of the slots."""
_LIVELY_OVER: Final = LIVELY + 0.01
"""Seconds for a timer that looks again: a timer of uvloop may be early by a millisecond."""
LISTING: Final = object()
"""Mark in place of the tool of an exchange that belongs to a listing."""
_MOST_REMEMBERED: Final = 10_000


class NoTurn(NoConnection):
    """Raised where no slot came free in time."""


class QueueFull(OutboundError):
    """Raised where too many calls wait already."""

    sent = False


class Slot(Struct, eq=False):
    """Hold the right to one exchange."""

    caller: Hashable
    tool: Hashable
    is_for_listing: bool
    """True for one of the slots that are kept for listings."""


class FairQueue:
    """Share the ``connections`` slots of one service. ``clock`` is monotonic seconds."""

    def __init__(
        self, connections: int, clock: Callable[[], float] = time.monotonic, most_waiting: int = MOST_WAITING
    ) -> None:
        self._clock = clock
        self._most_waiting = most_waiting
        self._share(connections)
        self._free_slots = self.size
        """Below 0 where there were more slots before, and calls still hold them."""
        self._tools_by_caller: dict[Hashable, list[Hashable]] = {}
        """The tool of each slot that a caller holds. A list of these is quicker than a count of each pair."""
        self._by_tool: dict[Hashable, int] = {}  # no Counter: its methods for a missing key are slow
        self._listing: set[Hashable] = set()
        self._answered_at: dict[Hashable, float] = {}
        self._last_answer = -math.inf
        self._lines = WaitingLines[Waiter]()

    def __repr__(self) -> str:
        calls, listings = self.size - self._free_slots, len(self._listing)
        held = f"{calls} of {self.size} held, {listings} of {self.listing_slots} for listings"
        return f"<FairQueue: {held}, {self._lines.total} wait>"

    def _share(self, connections: int) -> None:
        self.listing_slots = min(FOR_LISTINGS, connections // 4)
        self.size = connections - self.listing_slots
        self.third = max(1, self.size // 3)
        self.two_thirds = max(1, self.size * 2 // 3)
        self.half_of_third = max(1, self.third // 2)

    def resize(self, connections: int) -> None:
        """Have so many slots from now on. Exchanges under way keep theirs: where there are too many, others wait."""
        before = self.size
        self._share(connections)
        self._free_slots += self.size - before
        self._serve()

    @property
    def waiting(self) -> int:
        """Return how many exchanges wait for a turn."""
        return self._lines.total

    @property
    def in_use(self) -> int:
        """Return how many slots are in use, those for listings among them."""
        return self.size - self._free_slots + len(self._listing)

    @property
    def listing_waits(self) -> bool:
        """Return whether a listing waits for its turn."""
        return LISTING in self._lines.tools

    def answered_at(self, tool: Hashable = None) -> float:
        """Return when the service last answered a call of ``tool``; without one, when it last answered anything. It is
        the time of ``clock``, infinitely long ago where there is none."""
        return self._last_answer if tool is None else self._answered_at.get(tool, -math.inf)

    async def take(self, caller: Hashable, tool: Hashable, patience: float) -> Slot:
        """Return a slot for one exchange. Raise :class:`NoTurn` after ``patience`` seconds, and :class:`QueueFull`
        where too many wait."""
        slot = self.take_at_once(caller, tool)
        if slot is not None:
            return slot
        if self._lines.total >= self._most_waiting:
            self._make_room(caller)
        loop = asyncio.get_running_loop()
        waiter = Waiter(caller, tool, loop.create_future())
        self._lines.add(waiter)
        if tool is LISTING:
            loop.call_later(_LIVELY_OVER, self._serve)
        timer = loop.call_later(patience, self._refuse, waiter, NoTurn(f"no turn within {patience:g} s"))
        try:
            given: Slot = await waiter.turn
            return given
        except asyncio.CancelledError:
            self._lines.discard(waiter)
            if waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self.free(waiter.turn.result(), answered=False)  # it came in the same turn of the loop
            raise
        finally:
            timer.cancel()

    def take_at_once(self, caller: Hashable, tool: Hashable) -> Slot | None:
        """Return a slot for one exchange, None where it has to wait."""
        held, of_tool = self._tools_by_caller.get(caller), self._by_tool.get(tool, 0)
        if (
            (held is None or len(held) < self.half_of_third)
            and of_tool < self.third
            and self._free_slots > 0
            and tool is not LISTING
        ):
            # As below, for the usual case.
            if held is None:
                self._tools_by_caller[caller] = [tool]
            else:
                held.append(tool)
            self._free_slots -= 1
            self._by_tool[tool] = of_tool + 1
            return Slot(caller, tool, False)
        return self._grant(caller, tool) if self._may_go(caller, tool) else None

    def _may_go(self, caller: Hashable, tool: Hashable) -> bool:
        if tool is LISTING:
            if self._may_keep(caller):
                return True
            if self.listing_slots and caller not in self._listing and self._is_lively(LISTING):
                return False
        held = self._tools_by_caller.get(caller, ())
        return len(held) < self.third and held.count(tool) < self.half_of_third and self._has_other_room(tool)

    def _may_keep(self, caller: Hashable) -> bool:
        return len(self._listing) < self.listing_slots and caller not in self._listing

    def _has_room(self, tool: Hashable) -> bool:
        """Return whether some caller could get a slot for this tool."""
        return (tool is LISTING and len(self._listing) < self.listing_slots) or self._has_other_room(tool)

    def _has_other_room(self, tool: Hashable) -> bool:
        held = self._by_tool.get(tool, 0)
        if held < self.third:
            return self._free_slots > 0
        return self._free_slots > 0 and held < self.two_thirds and tool is not LISTING and self._is_lively(tool)

    def _is_lively(self, tool: Hashable) -> bool:
        return self._clock() - self.answered_at(tool) < LIVELY

    def _grant(self, caller: Hashable, tool: Hashable) -> Slot:
        kept = tool is LISTING and self._may_keep(caller)
        if kept:
            self._listing.add(caller)
        else:
            self._free_slots -= 1
            self._tools_by_caller.setdefault(caller, []).append(tool)
            self._by_tool[tool] = self._by_tool.get(tool, 0) + 1
        return Slot(caller, tool, kept)

    def free(self, slot: Slot, *, answered: bool) -> None:
        """Give a slot to the next that waits, once. ``answered`` says whether the service answered the exchange."""
        caller, tool = slot.caller, slot.tool
        if slot.is_for_listing:
            self._listing.remove(caller)
        else:
            self._free_slots += 1
            if len(tools := self._tools_by_caller[caller]) > 1:
                tools.remove(tool)
            else:
                del self._tools_by_caller[caller]
            if (held := self._by_tool.pop(tool)) > 1:
                self._by_tool[tool] = held - 1
        is_news = answered and (tool is not LISTING or slot.is_for_listing)
        if answered:
            self._last_answer = self._clock()
        if is_news:
            if len(self._answered_at) >= _MOST_REMEMBERED:
                self._answered_at.clear()  # costs a busy tool a third of the slots until its next answer
            self._answered_at[tool] = self._last_answer
        if not self._lines.total:
            return
        if is_news and self.listing_waits:
            asyncio.get_running_loop().call_later(_LIVELY_OVER, self._serve)
        # While slots were left, only its own caller or tool held up a waiter. So others need no look.
        lines = self._lines
        if self._free_slots <= 1 or slot.is_for_listing or caller in lines.callers or tool in lines.tools:
            self._serve()

    def _serve(self) -> None:
        while (waiter := self._lines.pop_next(self._has_room, self._may_go)) is not None:
            if not waiter.turn.done():  # it may have been cancelled in this turn of the loop
                waiter.turn.set_result(self._grant(waiter.caller, waiter.tool))

    def _make_room(self, caller: Hashable) -> None:
        """Refuse one that waits. Raise :class:`QueueFull` instead where no other caller has more waiters than this
        one."""
        last = self._lines.surplus(caller)
        if last is None:
            raise QueueFull("too many calls wait")
        self._refuse(last, QueueFull("too many calls wait"))

    def _refuse(self, waiter: Waiter, why: OutboundError) -> None:
        self._lines.discard(waiter)
        if not waiter.turn.done():
            waiter.turn.set_exception(why)
