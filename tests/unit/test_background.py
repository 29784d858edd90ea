"""Background work is started again where it ends, and its state can be asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest
from structlog.testing import capture_logs

from gateway.concurrency.background import Background, keep_fresh, retry_delay
from tests.waiting import PATIENCE

Work: TypeAlias = Callable[[], Awaitable[None]]


class World:
    """Background with a clock and a pause of the test's own: each pause ends when ``go_on`` is called."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.background = Background(self._pause, lambda: self.now)
        self.pauses: asyncio.Queue[float] = asyncio.Queue()
        self._go_on = asyncio.Queue[None]()

    async def _pause(self, seconds: float) -> None:
        self.pauses.put_nowait(seconds)
        await self._go_on.get()
        self.now += seconds

    def go_on(self) -> None:
        self._go_on.put_nowait(None)

    @property
    def state(self) -> list[str]:
        return list(self.background.describe())


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.background.stop()


async def soon(queue: asyncio.Queue[float]) -> float:
    async with asyncio.timeout(PATIENCE):
        return await queue.get()


async def cancelled_within() -> None:
    """An inner task was cancelled, not this one."""
    inner = asyncio.ensure_future(asyncio.Event().wait())
    inner.cancel()
    await inner


async def for_ever() -> None:
    await asyncio.Event().wait()


async def returns() -> None:
    pass


async def fails() -> None:
    raise ZeroDivisionError("a secret")


async def test_its_repr_shows_the_state_of_each_job(world: World) -> None:
    assert repr(world.background) == "<Background no jobs>"
    world.background.start("listing", for_ever)
    assert repr(world.background) == "<Background listing: running>"


@pytest.mark.parametrize(
    ("work", "why"),
    [(fails, "ZeroDivisionError"), (returns, "it returned"), (cancelled_within, "CancelledError")],
)
async def test_work_that_ends_is_logged_named_and_started_again(world: World, work: Work, why: str) -> None:
    starts = asyncio.Queue[float]()

    async def once_then_for_ever() -> None:
        starts.put_nowait(world.now)
        if starts.qsize() == 1 and world.now == 1000.0:
            await work()
            return
        await for_ever()

    with capture_logs() as lines:
        world.background.start("listing", once_then_for_ever)
        wait = await soon(world.pauses)
        assert world.state == [f"listing: not running, ended unexpectedly once, last 0 s ago: {why}"]
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("background work ended unexpectedly", "error")
    assert (line["work"], line["starts_in"]) == ("listing", wait)
    await soon(starts)
    world.go_on()
    assert await soon(starts) == 1000.0 + wait
    world.now += 7
    assert world.state == [f"listing: running, ended unexpectedly once, last {7 + wait:.0f} s ago: {why}"]


async def test_the_pause_grows_to_half_a_minute_and_is_short_again_after_a_steady_minute(world: World) -> None:
    steady = False

    async def work() -> None:
        if steady:
            world.now += 60
        raise ZeroDivisionError

    world.background.start("reload", work)
    waits = []
    for _ in range(7):
        waits.append(await soon(world.pauses))
        world.go_on()
    assert waits == [retry_delay(failures) for failures in range(1, 8)]
    assert await soon(world.pauses) == 30
    steady = True
    world.go_on()
    assert await soon(world.pauses) == waits[0]


def test_each_failure_in_a_row_waits_longer_for_the_next_attempt_up_to_half_a_minute() -> None:
    waits = [retry_delay(failures) for failures in range(1, 9)]
    assert waits == [1, 2, 5, 15, 30, 30, 30, 30]


async def test_what_is_kept_fresh_is_fetched_at_once_and_again_shortly_before_it_is_old(world: World) -> None:
    fetched = []

    async def refresh() -> None:
        fetched.append(world.now)

    async def pause(seconds: float) -> None:
        world.pauses.put_nowait(seconds)
        world.now += seconds
        if world.pauses.qsize() == 50:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await keep_fresh(refresh, lambda: fetched[-1] + 100.0 - world.now if fetched else 0.0, pause)
    waits = [world.pauses.get_nowait() for _ in fetched]
    assert fetched[0] == 1000.0
    assert all(85 <= wait <= 98 for wait in waits)
    assert len(set(waits)) > 1, "replicas spread"


async def test_what_is_fresh_already_is_not_fetched_before_it_gets_old(world: World) -> None:
    async def refresh() -> None:
        raise ZeroDivisionError

    async def pause(seconds: float) -> None:
        world.now += seconds

    with pytest.raises(ZeroDivisionError):
        await keep_fresh(refresh, lambda: 1100.0 - world.now, pause)
    assert 1085 <= world.now <= 1098


async def test_what_is_old_before_it_is_fetched_is_not_asked_for_without_a_pause(world: World) -> None:
    async def refresh() -> None:
        pass

    async def pause(seconds: float) -> None:
        assert seconds > 0
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await keep_fresh(refresh, lambda: -5.0, pause)


async def test_work_that_goes_on_is_said_to_run(world: World) -> None:
    world.background.start("listing", for_ever)
    world.background.start("reload", for_ever)
    assert world.state == ["listing: running", "reload: running"]


async def test_stopping_ends_work_for_good_also_between_two_starts(world: World) -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await for_ever()
        finally:
            ended.set()

    world.background.start("listing", work)
    world.background.start("reload", fails)
    await soon(world.pauses)
    async with asyncio.timeout(PATIENCE):
        await world.background.stop()
    assert ended.is_set()
    assert world.state == []
