"""What the store in memory forgets, and when. The rest of it is in tests/contract/test_stores.py."""

from __future__ import annotations

import pytest

from gateway.signing import SigningKeys
from gateway.store import ResourceStore
from gateway.store.memory import MemoryStore, SpentBursts
from tests.contract.stores import taken
from tests.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_markers_are_bounded_and_the_oldest_forgotten_first() -> None:
    store = MemoryStore(most=3)
    for key in "abcd":
        assert await store.add(key, 60)
    assert [await store.has(key) for key in "abcd"] == [False, True, True, True]


async def test_keys_whose_time_is_over_make_room_before_others_are_forgotten(clock: ManualClock) -> None:
    store = MemoryStore(clock, most=3)
    await store.add("stays", 1000)
    await store.add("goes", 10)
    await store.add("goes too", 10)
    clock.now += 11
    for key in ("new", "newer"):
        await store.add(key, 10)
    assert [await store.has(key) for key in ("stays", "new", "newer")] == [True] * 3


async def test_ended_sessions_in_great_number_do_not_push_out_other_purposes() -> None:
    store = MemoryStore(most=3)
    await store.add("dpop:used", 60)
    await store.permit("discovery:ada", 1, 1).take()
    for number in range(10):
        await store.add(f"session-ended:{number}", 60)
        await store.permit(f"next page:{number}", 1, 1).take()
    assert await store.has("dpop:used")
    assert await store.permit("discovery:ada", 1, 1).take() > 0


async def test_a_flood_at_one_resource_pushes_out_nothing_of_another(clock: ManualClock) -> None:
    shared = MemoryStore(clock, most=3)
    quiet, flooded = (
        ResourceStore(shared, SigningKeys((b"s" * 32,), f"https://gateway.example.com/{name}/mcp"))
        for name in ("crm", "shop")
    )
    await quiet.add("dpop:used", 60)
    await quiet.permit("discovery:ada", 1, 1).take()
    for number in range(10):
        await flooded.add(f"dpop:{number}", 60)
        await flooded.permit(f"discovery:{number}", 1, 1).take()
    assert await quiet.has("dpop:used")
    assert await quiet.permit("discovery:ada", 1, 1).take() > 0
    assert await quiet.permit("discovery:bob", 1, 1).take() == 0


async def test_more_keys_than_there_is_room_gain_no_fresh_bursts(clock: ManualClock) -> None:
    """A stranger with 40 addresses where ten are remembered: what it gets in all is ten bursts and what comes back."""
    store = MemoryStore(clock, most=10)
    got = 0
    for _ in range(50):
        for address in range(40):
            while not await store.permit(f"discovery:{address}", 1, 6).take():
                got += 1
    assert got == 10 * 6
    clock.now += 3
    for address in range(40):
        while not await store.permit(f"discovery:{address}", 1, 6).take():
            got += 1
    assert got == 10 * 6 + 10 * 3


async def test_a_newcomer_during_such_an_attack_waits_no_longer_than_for_its_own_burst(clock: ManualClock) -> None:
    store = MemoryStore(clock, most=10)
    for address in range(40):
        while not await store.permit(f"discovery:{address}", 1, 6).take():
            pass
    newcomer = store.permit("discovery:ada", 1, 6)
    assert 0 < await newcomer.take() <= 1
    clock.now += 1
    assert await newcomer.take() == 0


async def test_with_room_made_by_those_that_owe_nothing_a_newcomer_has_its_burst(clock: ManualClock) -> None:
    store = MemoryStore(clock, most=10)
    for address in range(10):
        await taken(store.permit(f"discovery:{address}", 1, 6))
    clock.now += 6
    assert await taken(store.permit("discovery:ada", 1, 6)) == 6


async def test_a_handle_that_was_pushed_out_has_no_permits_of_its_own(clock: ManualClock) -> None:
    store = MemoryStore(clock, most=2)
    kept = store.permit("discovery:ada", 1, 6)
    assert await taken(kept) == 6
    for address in range(20):
        await taken(store.permit(f"discovery:{address}", 1, 6))
    assert await kept.take() > 0
    clock.now += 3
    assert await kept.take() == 0
    assert await taken(store.permit("discovery:ada", 1, 6)) < 3


def test_keys_with_their_whole_burst_again_are_dropped_as_others_come(clock: ManualClock) -> None:
    spent_bursts = SpentBursts(clock, 1000)
    flood = [spent_bursts.find(f"flood {number}") for number in range(500)]
    for spent in flood:
        spent.until = clock.now + 60
    busy = spent_bursts.find("busy")
    busy.until = clock.now + 1000
    clock.now += 60
    for number in range(251):
        spent_bursts.find(f"later {number}").until = clock.now + 60
    assert [spent.forgotten for spent in flood].count(False) == 0
    assert spent_bursts.find("busy") is busy
