"""What every store keeps, whatever it is made of (:class:`gateway.store.Store`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.store import Store
from gateway.store.memory import MemoryStore


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


MAKERS: dict[str, Callable[[Clock], Store]] = {"memory": lambda clock: MemoryStore(clock)}


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, clock: Clock) -> Store:
    return MAKERS[request.param](clock)


async def test_a_key_is_there_once_it_was_added(store: Store) -> None:
    assert not await store.has("k")
    assert await store.add("k", 60)
    assert await store.has("k")


async def test_a_key_can_be_added_once(store: Store) -> None:
    assert [await store.add("k", 60) for _ in range(3)] == [True, False, False]


async def test_of_several_at_once_one_hears_true(store: Store) -> None:
    assert sorted(await asyncio.gather(*(store.add("k", 60) for _ in range(20)))) == [False] * 19 + [True]


async def test_looking_adds_nothing(store: Store) -> None:
    await store.has("k")
    assert await store.add("k", 60)


@pytest.mark.parametrize("ttl", [0.5, 60, 86400.0])
async def test_a_key_is_forgotten_when_its_time_is_over_and_not_before(store: Store, clock: Clock, ttl: float) -> None:
    await store.add("k", ttl)
    clock.now += ttl * 0.99
    assert await store.has("k")
    assert not await store.add("k", ttl)
    clock.now += ttl * 0.02
    assert not await store.has("k")
    assert await store.add("k", ttl)


async def test_adding_again_does_not_prolong_a_key(store: Store, clock: Clock) -> None:
    await store.add("k", 60)
    clock.now += 59
    assert not await store.add("k", 60)
    clock.now += 2
    assert not await store.has("k")


async def test_keys_have_their_own_times(store: Store, clock: Clock) -> None:
    await store.add("short", 10)
    await store.add("long", 100)
    clock.now += 50
    assert (await store.has("short"), await store.has("long")) == (False, True)


@pytest.mark.parametrize("key", ["", " ", "a:b", "ä", "k" * 1000, "\n", "\x00"])
async def test_any_text_is_a_key(store: Store, key: str) -> None:
    await store.add("other", 60)
    assert await store.add(key, 60)
    assert await store.has(key)


async def test_a_store_in_memory_is_bounded_and_forgets_the_oldest_first() -> None:
    """Memory alone: a store that replicas share has bounds of its own."""
    store = MemoryStore(most=3)
    for key in "abcd":
        assert await store.add(key, 60)
    assert [await store.has(key) for key in "abcd"] == [False, True, True, True]


async def test_keys_whose_time_is_over_make_room_before_others_are_forgotten(clock: Clock) -> None:
    store = MemoryStore(clock, most=3)
    await store.add("stays", 1000)
    await store.add("goes", 10)
    await store.add("goes too", 10)
    clock.now += 11
    for key in ("new", "newer"):
        await store.add(key, 10)
    assert [await store.has(key) for key in ("stays", "new", "newer")] == [True] * 3
