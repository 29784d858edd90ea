"""What many want at once is done once, and nobody who hangs up ends it for the others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.concurrency.single_flight import SingleFlight


class Work:
    """Counts its runs; each waits until ``over`` is set, then fails with ``failure`` or returns its number."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.over = asyncio.Event()
        self.runs = 0
        self.failure = failure

    async def __call__(self) -> int:
        self.runs += 1
        number = self.runs
        await self.over.wait()
        if self.failure is not None:
            raise self.failure
        return number


async def begun(count: int, join: Callable[[], Coroutine[Any, Any, int]]) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(join()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_all_who_wait_for_one_key_get_the_result_of_one_run() -> None:
    flights, work = SingleFlight[str, int](), Work()
    waiting = await begun(50, lambda: flights.join("a", work))
    assert "a" in flights
    work.over.set()
    assert await asyncio.gather(*waiting) == [1] * 50
    assert "a" not in flights


async def test_work_for_different_keys_runs_side_by_side() -> None:
    flights, work = SingleFlight[str, int](), Work()
    waiting = [*await begun(2, lambda: flights.join("a", work)), *await begun(2, lambda: flights.join("b", work))]
    work.over.set()
    assert await asyncio.gather(*waiting) == [1, 1, 2, 2]


async def test_nothing_is_kept_once_work_is_over() -> None:
    flights, work = SingleFlight[str, int](), Work()
    work.over.set()
    assert [await flights.join("a", work), await flights.join("a", work)] == [1, 2]
    assert repr(flights) == "<SingleFlight 0 under way>"


async def test_who_hangs_up_does_not_end_the_work_for_the_others() -> None:
    flights, work = SingleFlight[str, int](), Work()
    first, second = await begun(2, lambda: flights.join("a", work))
    first.cancel()
    await asyncio.wait([first])
    work.over.set()
    assert await second == 1
    assert first.cancelled()


async def test_work_goes_on_where_all_have_hung_up_and_whoever_comes_joins_it() -> None:
    flights, work = SingleFlight[str, int](), Work()
    (only,) = await begun(1, lambda: flights.join("a", work))
    only.cancel()
    await asyncio.wait([only])
    (late,) = await begun(1, lambda: flights.join("a", work))
    work.over.set()
    assert await late == 1


async def test_all_who_wait_hear_of_a_failure_and_the_next_one_tries_again() -> None:
    flights, work = SingleFlight[str, int](), Work(ZeroDivisionError())
    waiting = await begun(3, lambda: flights.join("a", work))
    work.over.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 3
    work.failure = None
    assert await flights.join("a", work) == 2


async def test_a_failure_that_nobody_is_left_to_hear_is_not_logged_by_asyncio() -> None:
    flights, work = SingleFlight[str, int](), Work(ZeroDivisionError())
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    (only,) = await begun(1, lambda: flights.join("a", work))
    only.cancel()
    await asyncio.wait([only])
    task = flights.start("a", work)
    work.over.set()
    await asyncio.wait([task])
    del task, only  # asyncio says so once nobody holds the task any more
    await asyncio.sleep(0)
    gc.collect()
    assert said == []


async def test_work_that_is_over_is_not_joined_even_before_its_end_is_told() -> None:
    """The loop tells of an end in a later turn; who comes in between wants what is true now."""
    flights, work = SingleFlight[str, int](), Work()
    work.over.set()
    task = flights.start("a", work)
    joined = None
    while joined is None:
        await asyncio.sleep(0)
        if task.done():
            joined = await flights.join("a", work)
    assert joined == 2


async def test_work_that_was_cancelled_before_it_began_is_begun_again() -> None:
    flights, work = SingleFlight[str, int](), Work()
    task = flights.start("a", work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    work.over.set()
    assert await flights.join("a", work) == 1
