"""How long the event loop was held is measured, and forgotten after a while."""

from __future__ import annotations

import asyncio

from gateway.concurrency.turns import LoopLag
from tests.virtual_time import at, virtually


class HeldLoop:
    """Hold the running loop: its clock moves on while nothing else runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._held = 0.0
        self._loop.time = lambda: self._time() + self._held  # type: ignore[method-assign]

    def hold(self, seconds: float) -> None:
        self._held += seconds


@virtually
async def test_the_longest_delay_of_a_timer_is_kept_for_a_while() -> None:
    loop, lag = HeldLoop(), LoopLag()
    lag.start()
    await at(1.0)
    assert lag.seconds < 0.01
    loop.hold(0.5)
    await at(2.0)
    assert 0.2 < lag.seconds <= 0.5
    await at(7.4)
    assert 0.2 < lag.seconds <= 0.5
    await at(20.0)
    assert lag.seconds < 0.01
    lag.stop()


@virtually
async def test_one_that_was_never_started_can_be_stopped() -> None:
    lag = LoopLag()
    lag.stop()
    assert lag.seconds == 0
