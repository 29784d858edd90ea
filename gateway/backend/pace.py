"""Ask many questions at the pace that the service sets: it does other work, and others may have limited it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 4
"""Questions under way at most."""
SLOW: Final = 0.1
"""Seconds of an answer after which there is a pause as long as the answer took."""
FASTEST: Final = 20.0
"""Questions a second, from which the rate is halved. A service that limits nothing has no rate."""
SLOWEST: Final = 1.0
STEP_AFTER: Final = 10
"""Answers after which the rate goes up by one question a second."""
MOST_LIMITED: Final = 10
"""Limited questions in a row after which the others wait for the next refresh."""


@dataclass(eq=False)
class Pace:
    """Say when the next question may be asked. ``clock`` is monotonic seconds. ``paused`` are the seconds in
    which nothing was asked for the service's sake. ``rate`` is in questions a second, None for any."""

    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    rate: float | None = None
    paused: float = 0.0
    limited: int = 0
    _next_at: float = 0.0
    _halved_at: float = -1.0
    _answered: int = 0

    async def take_turn(self) -> float:
        """Wait for a turn. Return when it came, for :meth:`note`."""
        if self.rate is not None:
            now = self.clock()
            turn = max(now, self._next_at)
            self._next_at = turn + 1 / self.rate
            await self._wait(turn - now)
        return self.clock()

    async def note(self, asked_at: float, *, limited: bool) -> None:
        """Note an answer, and pause after a slow one. ``limited`` is HTTP 429 or 503: of those that were under way
        together, only one halves the rate."""
        now = self.clock()
        if limited:
            self.limited += 1
            if asked_at > self._halved_at:
                self.rate, self._halved_at = max(SLOWEST, (self.rate or FASTEST) / 2), now
            return
        self.limited, self._answered = 0, self._answered + 1
        if self.rate is not None and self._answered >= STEP_AFTER:
            self.rate, self._answered = min(FASTEST, self.rate + 1), 0
        if now - asked_at > SLOW:
            await self._wait(now - asked_at)

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            await self.pause(seconds)
            self.paused += seconds / AT_ONCE
