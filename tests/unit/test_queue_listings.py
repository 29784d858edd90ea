"""What the queue keeps for listings, and what listings may take of the rest."""

from __future__ import annotations

import asyncio

from gateway.backend.queue import LISTING, FairQueue
from tests.clock import Clock, by_hand
from tests.queueing import PATIENCE, Stand


async def test_listings_have_slots_that_no_call_takes() -> None:
    stand = Stand(16)
    for number in range(20):
        await stand.come(number, f"tool {number}")
    assert len(stand.served) == 12
    await stand.come("ada", LISTING)
    assert stand.served[-1] == ("ada", LISTING)
    await stand.leave()


async def test_one_caller_holds_one_slot_of_those_for_listings() -> None:
    stand = Stand(16)
    for number in range(12):
        await stand.come(number, f"tool {number}")  # the others are taken
    await stand.come("ada", LISTING, 3)
    await stand.come("bob", LISTING)
    assert stand.served[12:] == [("ada", LISTING), ("bob", LISTING)]
    assert stand.queue.listing_waits
    await stand.free("ada", LISTING)
    assert stand.served[14:] == [("ada", LISTING)]
    await stand.leave()
    assert not stand.queue.listing_waits


async def test_a_listing_that_asks_several_things_at_once_takes_other_slots_too() -> None:
    stand = Stand(16)
    await stand.come("ada", LISTING, 8)
    assert len(stand.served) == 1 + 2  # half of the third that listings have of the others
    await stand.leave()


async def test_a_rush_of_listings_that_are_answered_takes_no_more_than_is_kept_for_them() -> None:
    stand = Stand(16)
    await stand.come("ada", LISTING)
    await stand.free("ada", LISTING)
    for number in range(20):
        await stand.come(number, LISTING)
    assert len(stand.served) == 1 + 4
    await stand.free(0, LISTING)
    assert len(stand.served) == 1 + 4 + 1
    await stand.leave()


async def test_listings_that_hang_leave_newcomers_a_third_of_the_other_slots_and_no_more() -> None:
    stand = Stand(100)
    for number in range(40):
        await stand.come(number, LISTING)
    assert len(stand.served) == 4 + 32
    await stand.come("ada", "echo")
    assert stand.served[-1] == ("ada", "echo")
    await stand.leave()


async def test_answers_to_newcomers_do_not_hide_that_other_listings_hang() -> None:
    stand = Stand(100)
    for number in range(4):
        await stand.come(number, LISTING)
    for number in range(4, 50):
        await stand.come(number, LISTING)
        await stand.free(number, LISTING)
    assert len(stand.served) == 50
    await stand.leave()


@by_hand
async def test_newcomers_wait_for_a_second_when_listings_begin_to_hang(clock: Clock) -> None:
    queue = FairQueue(16, clock.time)
    queue.free(await queue.take("zoe", LISTING, PATIENCE), answered=True)
    hung = [await queue.take(number, LISTING, PATIENCE) for number in range(4)]
    await clock.moves_on(0.5)
    newcomer = asyncio.create_task(queue.take("ada", LISTING, PATIENCE))
    await clock.moves_on(0.2)
    queue.free(hung.pop(), answered=True)
    slot = await newcomer
    hung.append(slot)
    newcomer = asyncio.create_task(queue.take("bob", LISTING, PATIENCE))
    await clock.moves_on(0.9)
    assert not newcomer.done()
    await clock.moves_on(0.2)
    assert newcomer.done()
    for slot in (*hung, await newcomer):
        queue.free(slot, answered=False)
    assert repr(queue) == "<FairQueue: 0 of 12 held, 0 of 4 for listings, 0 wait>"


@by_hand
async def test_a_timer_that_is_early_by_a_millisecond_leaves_no_newcomer_waiting(clock: Clock) -> None:
    """The timers of uvloop are, since it counts whole milliseconds."""
    late = 0.0
    queue = FairQueue(16, lambda: clock.now - late)
    held = [await queue.take(number, LISTING, PATIENCE) for number in range(4)]
    queue.free(held.pop(), answered=True)
    held.append(await queue.take("next", LISTING, PATIENCE))
    newcomers = [asyncio.create_task(queue.take(name, LISTING, PATIENCE)) for name in ("one", "two")]
    await clock.moves_on(0.5)
    queue.free(held.pop(), answered=True)  # the first newcomer gets this slot; now the others hang
    late = 0.0009
    await clock.moves_on(1.1)
    held += [await asyncio.wait_for(newcomer, 0) for newcomer in newcomers]
    for slot in held:
        queue.free(slot, answered=False)


async def test_in_a_small_pool_listings_and_calls_take_turns() -> None:
    stand = Stand(1)
    await stand.come("ada", "a", 3)
    await stand.come("the gateway", LISTING)
    await stand.free("ada", "a")
    await stand.free("ada", "a")
    assert stand.served == [("ada", "a"), ("ada", "a"), ("the gateway", LISTING)]
    await stand.free("the gateway", LISTING)
    assert stand.served[3:] == [("ada", "a")]
