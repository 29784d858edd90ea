"""Whose exchange with the service is next: shares, turns, and what becomes of those who wait in vain."""

from __future__ import annotations

import asyncio
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backend.queue import LISTING, FairQueue, NoTurn, QueueFull
from tests.clock import Clock, by_hand
from tests.each import each
from tests.queueing import Stand, settle
from tests.tables import each_row


@each_row
def test_shares_of_small_and_large_pools(
    connections: int, kept: int, third: int, two_thirds: int, half_of_third: int
) -> None:
    queue = FairQueue(connections)
    shares = (queue.third, queue.two_thirds, queue.half_of_third)
    assert (queue.listing_slots, queue.size, shares) == (kept, connections - kept, (third, two_thirds, half_of_third))


async def test_one_caller_holds_a_third_whatever_it_calls() -> None:
    stand = Stand(100)
    for number in range(40):
        await stand.come("ada", f"tool {number}")
    assert len(stand.served) == 32
    await stand.come("bob", "tool 0")
    assert stand.served[-1] == ("bob", "tool 0")
    await stand.leave()


async def test_one_tool_holds_a_third_whoever_calls_it() -> None:
    stand = Stand(100)
    for number in range(40):
        await stand.come(number, "hung")
    assert len(stand.served) == 32
    await stand.come(39, "echo")
    assert stand.served[-1] == (39, "echo")
    await stand.leave()


@each("connections", [8, 12, 16, 100])
async def test_one_caller_holds_half_of_a_tools_third_and_another_gets_in_at_once(connections: int) -> None:
    stand = Stand(connections)
    await stand.come("ada", "a", 2 * connections)
    held = len(stand.served)
    assert held == stand.queue.third // 2
    await stand.come("bob", "a")
    assert stand.served[held:] == [("bob", "a")]
    await stand.leave()


async def test_a_tool_that_has_just_answered_gives_one_caller_no_larger_share() -> None:
    """Quick calls first and then calls that hang would take all of the tool's third."""
    stand = Stand(100)
    await stand.come("ada", "a")
    await stand.free("ada", "a")
    await stand.come("ada", "a", 40)
    assert len(stand.served) == 1 + 16
    await stand.leave()


async def test_a_callers_calls_of_another_tool_take_the_rest_of_its_third() -> None:
    stand = Stand(100)
    for tool in "abc":
        await stand.come("ada", tool, 20)
    assert Counter(stand.served) == {("ada", "a"): 16, ("ada", "b"): 16}
    await stand.free("ada", "a")
    assert stand.served[32:] == [("ada", "a")]  # its line is the longest there
    await stand.leave()


async def test_it_is_known_when_a_tool_and_the_service_last_answered() -> None:
    stand = Stand(16)
    queue = stand.queue
    assert (queue.answered_at("a"), queue.answered_at()) == (-math.inf, -math.inf)
    for at, tool, answered in ((1.0, "a", True), (2.0, "b", True), (3.0, "a", False)):
        await stand.come("ada", tool)
        stand.clock.now = at
        await stand.free("ada", tool, answered=answered)
    assert (queue.answered_at("a"), queue.answered_at("b"), queue.answered_at()) == (1.0, 2.0, 2.0)
    await stand.come("ada", LISTING, 2)
    for at in (4.0, 5.0):  # the second one has a slot of those for calls, and is an answer all the same
        stand.clock.now = at
        await stand.free("ada", LISTING)
        assert queue.answered_at() == at


async def test_a_tool_that_answered_within_the_last_second_may_hold_two_thirds() -> None:
    stand = Stand(100)
    for number in range(70):
        await stand.come(number, "echo")
    assert len(stand.served) == 32
    await stand.free(0, "echo")
    assert len(stand.served) == 65  # one is over
    stand.clock.now += 0.99
    await stand.free(1, "echo", answered=False)
    assert len(stand.served) == 66
    await stand.leave()


async def test_a_tool_that_stopped_answering_is_back_at_a_third() -> None:
    stand = Stand(100)
    for number in range(70):
        await stand.come(number, "echo")
    await stand.free(0, "echo")
    stand.clock.now += 1
    for number in range(1, 33):
        await stand.free(number, "echo", answered=False)
    assert len(stand.served) == 65
    await stand.free(33, "echo", answered=False)
    assert len(stand.served) == 66
    await stand.leave()


async def test_what_ends_without_an_answer_widens_no_share() -> None:
    stand = Stand(100)
    for number in range(40):
        await stand.come(number, "hung")
    await stand.free(0, "hung", answered=False)
    assert len(stand.served) == 33
    await stand.leave()


async def test_callers_are_served_in_turn_however_many_calls_each_has_waiting() -> None:
    stand = Stand(1)
    await stand.come("ada", "a", 6)
    await stand.come("bob", "a", 2)
    await stand.come("cid", "a")
    for _ in range(9):
        caller, tool = stand.served[-1]
        await stand.free(caller, tool)
    assert [caller for caller, _ in stand.served] == ["ada", "ada", "bob", "cid", "ada", "bob", "ada", "ada", "ada"]


async def test_one_callers_tools_are_served_in_turn_too() -> None:
    stand = Stand(1)
    await stand.come("ada", "slow", 4)
    await stand.come("ada", "echo")
    for _ in range(4):
        await stand.free(*stand.served[-1])
    assert [tool for _, tool in stand.served] == ["slow", "slow", "echo", "slow", "slow"]
    await stand.leave()


async def test_a_call_that_its_own_tool_holds_up_holds_up_no_other() -> None:
    stand = Stand(7)  # six for all: two for a caller, two for a tool
    for caller in ("a", "b", "c", "d"):
        await stand.come(caller, "hung")
    await stand.come("c", "echo")
    await stand.come("d", "echo")
    assert stand.served == [("a", "hung"), ("b", "hung"), ("c", "echo"), ("d", "echo")]
    await stand.free("c", "echo")
    await stand.free("a", "hung", answered=False)
    assert stand.served[4:] == [("c", "hung")]
    await stand.leave()


async def test_a_caller_at_its_share_waits_while_slots_are_free_and_goes_on_with_its_own() -> None:
    stand = Stand(16)  # four for a caller, two of them for one tool
    for tool in "ab":
        await stand.come("ada", tool, 2)
    await stand.come("ada", "c")
    assert len(stand.served) == 4
    await stand.free("ada", "a")
    assert stand.served[4:] == [("ada", "c")]
    await stand.leave()


@by_hand
async def test_who_waits_is_refused_when_its_patience_is_over(clock: Clock) -> None:
    queue = FairQueue(1)
    slot = await queue.take("ada", "a", 5.0)
    waiting = asyncio.create_task(queue.take("bob", "a", 5.0))
    await clock.moves_on(4.9)
    assert not waiting.done()
    await clock.moves_on(0.2)
    with pytest.raises(NoTurn) as caught:
        await waiting
    assert not caught.value.sent
    queue.free(slot, answered=True)
    assert repr(queue) == "<FairQueue: 0 of 1 held, 0 of 0 for listings, 0 wait>"


async def test_who_hangs_up_while_waiting_leaves_its_turn_to_the_next() -> None:
    stand = Stand(1)
    await stand.come("ada", "a")
    await stand.come("bob", "a")
    await stand.come("cid", "a")
    await stand.hang_up(1)
    await stand.free("ada", "a")
    assert stand.served[1:] == [("cid", "a")]
    await stand.leave()


async def test_a_slot_that_comes_together_with_the_cancellation_goes_to_the_next() -> None:
    stand = Stand(1)
    await stand.come("ada", "a")
    await stand.come("bob", "a")
    await stand.come("cid", "a")
    stand.queue.free(stand.slots["ada", "a"].pop(), answered=True)
    await stand.hang_up(1)
    assert stand.served[1:] == [("cid", "a")]
    await stand.leave()


async def test_who_was_cancelled_before_its_slot_came_gets_none() -> None:
    stand = Stand(1)
    await stand.come("ada", "a")
    await stand.come("bob", "a")
    list(stand.tasks)[1].cancel()
    await stand.free("ada", "a")
    assert "0 of 1 held" in repr(stand.queue)
    await stand.leave()


async def test_of_too_many_the_newcomer_with_the_longest_line_is_refused() -> None:
    stand = Stand(1, most_waiting=3)
    await stand.come("ada", "a", 5)
    assert stand.refused == [("ada", QueueFull)]
    assert not QueueFull.sent
    await stand.leave()


async def test_where_one_callers_line_fills_the_queue_a_newcomer_takes_the_place_of_its_last() -> None:
    stand = Stand(1, most_waiting=3)
    await stand.come("ada", "a", 4)
    await stand.come("bob", "a")
    assert stand.refused == [("ada", QueueFull)]
    await stand.free("ada", "a")
    await stand.free(*stand.served[-1])
    assert stand.served == [("ada", "a"), ("ada", "a"), ("bob", "a")]
    await stand.leave()


async def test_a_flood_never_takes_the_place_of_who_has_fewer_waiting() -> None:
    stand = Stand(1, most_waiting=3)
    await stand.come("zoe", "a")
    for caller in ("ada", "bob", "cid"):
        await stand.come(caller, "a")
    await stand.come("eve", "a", 10)
    assert stand.refused == [("eve", QueueFull)] * 10
    await stand.leave()


Event = tuple[str, int, int]
EVENTS = st.lists(st.tuples(st.sampled_from(["come", "free", "cancel", "wait"]), st.integers(0, 5), st.integers(0, 3)))


@settings(max_examples=200, deadline=None)
@given(connections=st.integers(1, 20), events=EVENTS)
def test_whatever_happens_no_share_is_exceeded_nobody_waits_who_could_go_and_nothing_is_lost(
    connections: int, events: list[Event]
) -> None:
    asyncio.run(_play(connections, events))


async def _play(connections: int, events: list[Event]) -> None:
    stand = Stand(connections, most_waiting=8)
    queue = stand.queue
    tools = [LISTING, "a", "b", "c"]
    for kind, caller, tool in events:
        held = [slot for slots in stand.slots.values() for slot in slots]
        if kind == "come":
            await stand.come(caller, tools[tool])
        elif kind == "free" and held:
            slot = held[(caller * 4 + tool) % len(held)]
            stand.slots[slot.caller, slot.tool].remove(slot)
            queue.free(slot, answered=tool % 2 == 0)
            await settle()
        elif kind == "cancel" and stand.tasks:
            await stand.hang_up((caller * 4 + tool) % len(stand.tasks))
        else:
            stand.clock.now += 0.4 * caller
        _check(stand)
    await stand.leave()
    for slots in stand.slots.values():
        for slot in slots:
            queue.free(slot, answered=False)
    assert repr(queue) == f"<FairQueue: 0 of {queue.size} held, 0 of {queue.listing_slots} for listings, 0 wait>"


def _check(stand: Stand) -> None:
    queue = stand.queue
    held = [slot for slots in stand.slots.values() for slot in slots]
    others = [slot for slot in held if not slot.is_for_listing]
    kept = Counter(slot.caller for slot in held if slot.is_for_listing)
    assert len(others) <= queue.size
    assert kept.total() <= queue.listing_slots
    assert max(kept.values(), default=0) <= 1
    assert max(Counter(slot.caller for slot in others).values(), default=0) <= queue.third
    by_both = Counter((slot.caller, slot.tool) for slot in others)
    assert max(by_both.values(), default=0) <= queue.half_of_third
    by_tool = Counter(slot.tool for slot in others)
    assert max(by_tool.values(), default=0) <= queue.two_thirds
    assert by_tool[LISTING] <= queue.third
    assert len(stand.waiting) <= 8
    by_caller = Counter(slot.caller for slot in others)
    for caller, tool in stand.waiting:
        if tool is LISTING and caller not in kept:
            assert kept.total() == queue.listing_slots
            continue  # the others are for it where listings hang, which timers tell
        held_up = (
            by_both[caller, tool] >= queue.half_of_third
            or by_caller[caller] >= queue.third
            or by_tool[tool] >= queue.third
            or len(others) == queue.size
        )
        assert held_up, f"{caller} could call {tool}"


async def test_a_reload_with_fewer_slots_takes_none_away_and_one_with_more_serves_those_who_wait() -> None:
    stand = Stand(3)
    for caller in "abc":
        await stand.come(caller, f"tool {caller}")
    stand.queue.resize(1)
    await stand.come("d", "tool d")
    await stand.free("a", "tool a")
    await stand.free("b", "tool b")
    assert stand.waiting == [("d", "tool d")]
    await stand.free("c", "tool c")
    assert stand.served[3:] == [("d", "tool d")]
    await stand.come("e", "tool e")
    stand.queue.resize(2)
    await settle()
    assert stand.served[4:] == [("e", "tool e")]
    await stand.leave()
