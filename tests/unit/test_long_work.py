"""Long work of many takes one step in each turn of the event loop, in the order in which it came."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from weakref import WeakKeyDictionary

import pytest
import uvloop

from gateway.concurrency.turns import SLICE, OneEachTurn, Turns, run_in_thread, run_in_turns
from tests.each import each
from tests.waiting import until


def long_steps(count: int, note: Callable[[], object]) -> Generator[None, None, None]:
    """Work so many times for longer than a slice, and note each."""
    for _ in range(count):
        end = time.monotonic() + 1.2 * SLICE
        while time.monotonic() < end:
            pass
        note()
        yield


@each("begin", {"at once": Turns.begin, "behind a thread": lambda: run_in_thread(int)})
async def test_one_goes_on_in_each_turn_in_the_order_of_asking(begin: Callable[[], Awaitable[object]]) -> None:
    turn, seen = 0, list[tuple[int, str]]()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def work(name: str) -> None:
        await begin()
        seen.append((turn, name))

    counting = asyncio.create_task(count_turns())
    names = [f"piece {number}" for number in range(20)]
    done = threading.Event()
    tasks = [asyncio.create_task(work(name)) for name in names]
    tasks.append(asyncio.create_task(run_in_thread(done.set)))
    await asyncio.sleep(0)
    done.wait()  # the loop stands still meanwhile: what the thread did for all is told in one turn
    await asyncio.gather(*tasks)
    counting.cancel()
    assert [name for _, name in seen] == names
    assert len({number for number, _ in seen}) == len(names)


async def test_alone_it_waits_for_nobody_at_its_beginning() -> None:
    steps = Turns.begin()
    with pytest.raises(StopIteration):
        steps.send(None)
    steps.close()


async def test_who_stops_waiting_holds_up_nobody() -> None:
    queue, seen = OneEachTurn(), list[str]()

    async def work(name: str) -> None:
        await queue.wait()
        seen.append(name)

    first, second, third = (asyncio.create_task(work(name)) for name in ("first", "second", "third"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, third)
    assert seen == ["first", "third"]


async def test_a_long_piece_lets_another_begin_between_its_steps() -> None:
    seen = list[str]()

    await asyncio.gather(*(run_in_turns(long_steps(3, partial(seen.append, name))) for name in ("a", "b")))
    assert seen == ["a", "a", "b", "a", "b", "b"]  # a asks for its second step before b asks for its first


async def test_work_of_a_caller_does_not_wait_for_all_that_list() -> None:
    listed = list[None]()
    listing = [asyncio.create_task(run_in_turns(long_steps(5, lambda: listed.append(None)))) for _ in range(20)]
    await asyncio.sleep(0)
    await run_in_turns(long_steps(5, lambda: None), Turns())
    assert len(listed) < 20, "each that lists took a step before the caller's work was done"
    await asyncio.gather(*listing)


async def test_each_event_loop_has_its_own_queue_and_only_one() -> None:
    queues: WeakKeyDictionary[asyncio.AbstractEventLoop, OneEachTurn] = WeakKeyDictionary()
    assert OneEachTurn.of(queues) is OneEachTurn.of(queues)

    async def queue() -> OneEachTurn:
        return OneEachTurn.of(queues)

    other = await asyncio.to_thread(lambda: asyncio.run(queue()))
    assert other is not OneEachTurn.of(queues)


async def test_threads_compute_one_after_the_other() -> None:
    under_way, most, may_end = 0, 0, threading.Event()

    def compute() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        may_end.wait()
        under_way -= 1

    tasks = [asyncio.create_task(run_in_thread(compute)) for _ in range(5)]
    await until(lambda: under_way)
    may_end.set()
    await asyncio.gather(*tasks)
    assert most == 1


@each("make", {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop})
def test_an_event_loop_that_has_ended_is_freed(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def work() -> weakref.ref[asyncio.AbstractEventLoop]:
        await asyncio.gather(*(Turns.begin() for _ in range(3)))
        return weakref.ref(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=make) as runner:
        ended = runner.run(work())
    del runner
    gc.collect()
    assert ended() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_was_forked_behind_long_work_has_a_thread_of_its_own() -> None:
    async def work() -> int:
        return await asyncio.wait_for(run_in_thread(int, "7"), 5)

    assert asyncio.run(work()) == 7
    child = os.fork()
    if not child:
        try:
            os._exit(asyncio.run(work()))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
