"""Calls under way at one mount: cancelled by name, or all of them at the end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.mcp.running import RunningCalls
from tests.each import each
from tests.waiting import PATIENCE

IDLE = "<RunningCalls: 0 running, 0 can be cancelled>"


@pytest.fixture
def calls() -> RunningCalls:
    return RunningCalls()


async def endless() -> None:
    await asyncio.Event().wait()


async def outcome(task: asyncio.Task[Any]) -> str:
    """What became of a call, awaited."""
    await asyncio.wait({task}, timeout=PATIENCE)
    return "cancelled" if task.cancelled() else "ended" if task.done() else "runs"


async def soon(calls: RunningCalls) -> None:
    """Return once nothing is held any more."""
    for _ in range(100):
        if repr(calls) == IDLE:
            return
        await asyncio.sleep(0)
    pytest.fail(f"{calls!r} holds on to what is over")


async def test_a_call_is_cancelled_by_its_session_and_its_id(calls: RunningCalls) -> None:
    mine, another_s, other = (calls.start(endless(), *name) for name in (("a", 7), ("b", 7), ("a", "7")))
    calls.cancel("a", 7)
    assert await outcome(mine) == "cancelled"
    assert not another_s.done()
    assert not other.done()
    await calls.close()


async def test_a_call_without_a_session_cannot_be_named(calls: RunningCalls) -> None:
    work = calls.start(endless(), None, 7)
    assert not calls.cancel("None", 7)
    assert not work.done()
    await calls.close()


async def test_what_was_never_there_or_is_over_is_cancelled_without_a_fault(calls: RunningCalls) -> None:
    calls.cancel("a", 7)
    work = calls.start(asyncio.sleep(0, "done"), "a", 7)
    assert await work == "done"
    calls.cancel("a", 7)
    assert await outcome(work) == "ended"


async def test_a_call_that_is_not_started_yet_hears_of_it(calls: RunningCalls) -> None:
    with calls.preparing("a", 7) as cancelled:
        assert repr(calls) == "<RunningCalls: 0 running, 1 can be cancelled>"
        calls.cancel("a", "7")
        assert not cancelled.is_set()
        calls.cancel("a", 7)
        assert cancelled.is_set()
    assert repr(calls) == IDLE


async def test_a_preparation_that_fails_is_forgotten(calls: RunningCalls) -> None:
    with pytest.raises(GatewayError), calls.preparing("a", 7):
        raise GatewayError("no such tool")
    assert repr(calls) == IDLE


async def test_an_id_that_is_used_again_names_the_newer_call(calls: RunningCalls) -> None:
    """Clients must not; then the end of the older one must not hide the newer."""
    older = calls.start(asyncio.sleep(0), "a", 7)
    newer = calls.start(endless(), "a", 7)
    await older
    calls.cancel("a", 7)
    assert await outcome(newer) == "cancelled"
    with calls.preparing("a", 7), calls.preparing("a", 7) as second:
        calls.cancel("a", 7)
        assert second.is_set()


async def test_a_call_goes_on_where_nobody_awaits_it(calls: RunningCalls) -> None:
    over = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        over.set()

    calls.start(work(), "a", 7)
    gc.collect()
    async with asyncio.timeout(PATIENCE):
        await over.wait()


@each("hangs_up", [False, True])
async def test_who_waits_for_the_end_may_hang_up_while_the_call_goes_on(calls: RunningCalls, hangs_up: bool) -> None:
    end = asyncio.get_running_loop().create_future()
    task = calls.start(asyncio.sleep(0, "made"), None, 7, end)
    if hangs_up:
        end.cancel()
    async with asyncio.timeout(PATIENCE):
        assert await task == "made"
    await soon(calls)
    assert end.cancelled() is hangs_up
    assert end.done()


async def test_closing_ends_all_calls_those_without_a_session_too(calls: RunningCalls) -> None:
    tasks = [calls.start(endless(), session, 7) for session in ("a", "b", None)]
    assert repr(calls) == "<RunningCalls: 3 running, 2 can be cancelled>"
    await calls.close()
    assert [task.cancelled() for task in tasks] == [True] * 3
    await soon(calls)
    await calls.close()


async def test_closing_waits_for_what_a_call_does_at_its_end(calls: RunningCalls) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await endless()
        finally:
            await asyncio.sleep(0)
            ended.append("tidy")

    calls.start(work(), "a", 7)
    await asyncio.sleep(0)
    await calls.close()
    assert ended == ["tidy"]


async def test_nothing_is_kept_of_a_call_that_is_over(calls: RunningCalls) -> None:
    """What a call runs on may be a service that a reload has swapped."""

    class Service:
        async def run(self) -> None:
            await asyncio.sleep(0)

    service = Service()
    gone = weakref.ref(service)
    calls.start(service.run(), "a", 7)
    del service
    await soon(calls)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("fails", [True, False])
async def test_an_error_that_nobody_is_left_to_hear_is_no_trouble(calls: RunningCalls, fails: bool) -> None:
    """asyncio would report an exception of a task that nobody asked for."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def work() -> None:
        if fails:
            raise GatewayError("no")

    calls.start(work(), "a", 7)
    await soon(calls)
    gc.collect()
    assert reported == []
