"""A loop whose clock a test moves by hand, for what must happen at a certain time and not before.

@by_hand
async def test_...(clock: Clock) -> None:
    await clock.moves_on(30)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final

from tests.waiting import PATIENCE

_TURNS: Final = 100
_STEP: Final = 0.05


class Clock(asyncio.SelectorEventLoop):
    """An event loop. Its time stands still but for :meth:`moves_on`; sockets work as ever."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.9  # what rounds up to whole seconds is off by much from here

    def time(self) -> float:
        return self.now

    async def settles(self) -> None:
        """Give everything that is due, and what sockets hold, its turns."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Give turns, and no time, until something holds. Raise TimeoutError after PATIENCE seconds of real time."""
        end = monotonic() + PATIENCE
        while not holds():
            if monotonic() > end:
                raise TimeoutError("it does not hold, and nothing else happens")
            await asyncio.sleep(0)

    async def moves_on(self, seconds: float) -> None:
        """Let so much time pass, in steps as a real clock would."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + _STEP, until)
            await self.settles()


def by_hand(test: Callable[[Clock], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a :class:`Clock`, which is its argument."""

    async def body() -> None:
        clock = asyncio.get_running_loop()
        assert isinstance(clock, Clock)
        await test(clock)

    def run() -> None:
        with asyncio.Runner(loop_factory=Clock) as runner:
            runner.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
