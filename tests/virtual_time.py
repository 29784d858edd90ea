"""A loop whose clock jumps to whatever is due next, for what takes its time. :mod:`tests.clock` has one moved by hand.

@virtually
async def test_...() -> None:
    await at(30)
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Jumping(selectors.DefaultSelector):
    """A selector that waits for nothing: where the loop would sleep, its clock moves on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing is due any more, and the test waits for ever"
        self.now += max(timeout, 0)
        return super().select(0)


def virtually(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a loop of its own with virtual time, which starts at 0."""

    def loop() -> asyncio.AbstractEventLoop:
        selector = _Jumping()
        made = asyncio.SelectorEventLoop(selector)
        made.time = lambda: selector.now  # type: ignore[method-assign]
        return made

    def run() -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def at(moment: float) -> None:
    """Return at this time, and after what else is due then."""
    await asyncio.sleep(moment - asyncio.get_running_loop().time())
    for _ in range(5):
        await asyncio.sleep(0)
