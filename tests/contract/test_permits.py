"""The contract of every store (:class:`gateway.store.Store`): permits, which count towards a rate limit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store import Store
from gateway.store.leases import SHARE
from tests.contract.stores import KINDS, clock_for, opened, taken
from tests.manual_clock import ManualClock
from tests.redis_server import RedisServer


async def test_a_whole_burst_may_be_taken_at_once(store: Store) -> None:
    assert await taken(store.permit("k", 2, 7)) == 7


async def test_permits_come_back_at_the_rate_and_no_more_than_the_burst(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 2, 7)
    assert await taken(permit, 7) == 7
    clock.now += 1.6
    assert await taken(permit) == 3
    clock.now += 0.4
    assert await taken(permit) == 1
    clock.now += 1000
    assert await taken(permit) == 7


async def test_what_is_refused_says_how_long_and_takes_nothing(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 0.5, 3)
    assert await taken(permit, 3) == 3
    assert [await permit.take() for _ in range(3)] == [2.0] * 3
    clock.now += 0.5
    assert await permit.take() == 1.5
    clock.now += 1.5
    assert await permit.take() == 0


@pytest.mark.parametrize(("rate", "burst"), [(1 / 86400, 1), (1 / 7, 3), (1000 / 60, 1000), (1e5, 10**4)])
async def test_after_the_wait_that_was_said_there_is_one(
    store: Store, clock: ManualClock, rate: float, burst: int
) -> None:
    permit = store.permit("k", rate, burst)
    for pause in (0, burst / rate, 1 / rate, burst / rate / 2) * 10:
        clock.now += pause
        await taken(permit, burst)
        wait = await permit.take()
        assert wait > 0
        clock.now += wait
        assert await permit.take() == 0


async def test_of_several_at_once_as_many_are_served_as_there_are_permits(store: Store) -> None:
    waits = await asyncio.gather(*(store.permit("k", 1, 5).take() for _ in range(20)))
    assert waits.count(0) == 5


async def test_of_two_replicas_at_one_moment_as_many_are_served_as_there_are_permits(
    store: Store, other: Store
) -> None:
    waits = await asyncio.gather(*(one.permit("k", 1, 20).take() for _ in range(20) for one in (store, other)))
    assert waits.count(0) == 20


@pytest.mark.parametrize(("rate", "burst"), [(10, 60), (1, 10), (1 / 6, 60)])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
async def test_half_a_burst_at_one_moment_over_two_replicas_is_served_each_time_that_it_is_within_the_limit(
    store: Store, other: Store, clock: ManualClock, rate: float, burst: int, load: float
) -> None:
    calls = burst // 2
    for _ in range(20):
        waits = await asyncio.gather(
            *((store, other)[call % 2].permit("k", rate, burst).take() for call in range(calls))
        )
        assert waits == [0] * calls
        clock.now += calls / rate / load


async def test_what_was_leased_and_not_used_is_left_and_can_be_taken_later(
    store: Store, other: Store, clock: ManualClock
) -> None:
    permit = store.permit("k", 1 / 3600, 100)
    assert await permit.take() == 0
    clock.now += 60
    assert permit.remaining()[0] == 99
    assert await taken(permit) == 99
    assert await taken(other.permit("k", 1 / 3600, 100)) == 0


async def test_what_is_taken_one_by_one_counts_and_a_wait_takes_nothing(store: Store) -> None:
    permit = store.permit("k", 1, 20)
    assert [await permit.take() for _ in range(30)] == [0] * 20 + [1] * 10


async def test_a_key_has_its_permits_whichever_handle_takes_them(store: Store, clock: ManualClock) -> None:
    kept = store.permit("k", 1, 5)
    assert await taken(kept, 2) == 2
    assert await taken(store.permit("k", 1, 5), 2) == 2
    assert await taken(kept) == 1
    clock.now += 1000
    assert await taken(store.permit("k", 1, 5), 4) == 4
    assert await taken(kept) == 1


async def test_asking_for_a_handle_takes_nothing(store: Store) -> None:
    for _ in range(10):
        permit = store.permit("k", 1, 5)
    assert await taken(permit) == 5


async def test_keys_have_their_own_permits(store: Store) -> None:
    assert [await taken(store.permit(key, 1, 2)) for key in ("a", "b", "a:b", "b:a", "")] == [2] * 5


async def test_a_kept_handle_and_a_new_one_agree_after_many_other_keys(store: Store, clock: ManualClock) -> None:
    """A store may forget a key that has its whole burst again. That must not give a second burst."""
    kept = store.permit("k", 1, 5)
    assert await taken(kept, 5) == 5
    clock.now += 10
    for number in range(100):
        await store.permit(f"other {number}", 1, 5).take()
    assert await taken(kept, 3) == 3
    assert await taken(store.permit("k", 1, 5), 2) == 2
    assert await kept.take() == 1


async def test_another_rate_holds_at_once_and_finds_what_was_taken(store: Store, clock: ManualClock) -> None:
    """A part of the old burst is as large a part of the new one where both fill in the same time; waits follow the new
    rate."""
    assert await taken(store.permit("part", 10, 100), 43) == 43, "a whole number of leases"
    assert await taken(store.permit("part", 1, 10)) == 5
    await store.permit("slow", 1 / 86400, 1).take()
    fast = store.permit("slow", 1, 60)
    assert await fast.take() == 1
    clock.now += 1
    assert await fast.take() == 0


async def test_a_permit_tells_what_is_left_and_when_all_will_be_there(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 2, 7)
    await permit.take()
    assert permit.remaining() == (6, 0.5)
    assert await taken(permit, 6) == 6
    assert permit.remaining() == (0, 3.5)
    assert await permit.take() == 0.5
    assert permit.remaining() == (0, 3.5)
    clock.now += 1.6
    await permit.take()
    assert permit.remaining() == (2, 2.4)
    clock.now += 1000
    await permit.take()
    assert permit.remaining() == (6, 0.5)


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(0.001, 1000),
    burst=st.integers(1, 500),
    steps=st.lists(st.tuples(st.floats(0, 50), st.integers(1, 5))),
)
def test_as_many_as_a_permit_says_are_left_can_be_taken_and_no_more(
    server: RedisServer, rate: float, burst: int, steps: list[tuple[float, int]]
) -> None:
    asyncio.run(_take_all(server, rate, burst, steps))


async def _take_all(server: RedisServer, rate: float, burst: int, steps: list[tuple[float, int]]) -> None:
    for kind in KINDS:
        server.control.flushall()
        clock = clock_for(kind, server)
        async with opened(kind, clock, server) as store:
            permit = store.permit("k", rate, burst)
            for pause, n in steps:
                clock.now += pause
                await taken(permit, n)
            left, full_in = permit.remaining()
            assert 0 <= full_in <= burst / rate + 1e-6
            assert await taken(permit, left) == left, kind
            # What is leased comes on top of a burst that came back meanwhile (decision 35).
            assert await taken(permit) <= (max(1, burst // SHARE) if "redis" in kind else 0), kind
