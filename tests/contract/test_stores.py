"""Test the contract of every store (:class:`gateway.store.Store`).

A further store is a branch of :func:`opened`. Tests of one store alone are in tests/unit and tests/redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.signing import SEAL_BYTES, SigningKeys
from gateway.store import MAX_DOCUMENT, MAX_NOTICE, Permit, ResourceStore, ServerStore, Store
from gateway.store.leases import SHARE
from gateway.store.memory import MemoryStore
from gateway.store.redis import RedisStore
from tests.manual_clock import ManualClock
from tests.redis_server import TEST_TIME, RedisServer, ServerClock

KINDS = ("memory", "one resource's", "redis", "one resource's in redis")
_RESOURCE = "https://gateway.example.com/mcp"
_SECRETS = (b"s" * 32,)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, server: RedisServer) -> str:
    server.control.flushall()
    kind: str = request.param
    return kind


def clock_for(kind: str, server: RedisServer) -> ManualClock:
    return ServerClock(server) if "redis" in kind else ManualClock()


@pytest.fixture
def clock(kind: str, server: RedisServer) -> ManualClock:
    return clock_for(kind, server)


@asynccontextmanager
async def opened(kind: str, clock: ManualClock, server: RedisServer) -> AsyncIterator[Store]:
    store: ServerStore = MemoryStore(clock)
    if "redis" in kind:
        store = RedisStore(Redis(port=server.port, protocol=2), clock=clock, time_script=TEST_TIME, slow=10)
    await store.open()
    assert store.health() == ""
    yield ResourceStore(store, SigningKeys(_SECRETS, _RESOURCE)) if "resource" in kind else store
    assert store.health() == ""
    await store.close()


def of(store: Store, name: str) -> ResourceStore:
    return ResourceStore(store, SigningKeys(_SECRETS, f"https://{name}.example.com/mcp"))


@pytest.fixture
async def store(kind: str, clock: ManualClock, server: RedisServer) -> AsyncIterator[Store]:
    async with opened(kind, clock, server) as store:
        yield store


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
async def test_a_key_is_forgotten_when_its_time_is_over_and_not_before(
    store: Store, clock: ManualClock, ttl: float
) -> None:
    await store.add("k", ttl)
    clock.now += ttl * 0.99
    assert await store.has("k")
    assert not await store.add("k", ttl)
    clock.now += ttl * 0.02
    assert not await store.has("k")
    assert await store.add("k", ttl)


async def test_adding_again_does_not_prolong_a_key(store: Store, clock: ManualClock) -> None:
    await store.add("k", 60)
    clock.now += 59
    assert not await store.add("k", 60)
    clock.now += 2
    assert not await store.has("k")


async def test_keys_have_their_own_times(store: Store, clock: ManualClock) -> None:
    await store.add("short", 10)
    await store.add("long", 100)
    clock.now += 50
    assert (await store.has("short"), await store.has("long")) == (False, True)


@pytest.mark.parametrize("key", ["", " ", "a:b", "ä", "k" * 1000, "\n", "\x00"])
async def test_any_text_is_a_key(store: Store, key: str) -> None:
    await store.add("other", 60)
    assert await store.add(key, 60)
    assert await store.has(key)


async def test_a_marker_is_no_permit(store: Store) -> None:
    await store.add("k", 60)
    assert await store.permit("k", 1, 1).take() == 0
    assert not await store.add("k", 60)


async def taken(permit: Permit, most: int = 1000) -> int:
    """Return how many permits can be taken one by one, at most ``most``."""
    for count in range(most):
        if await permit.take():
            return count
    return most


async def test_a_whole_burst_may_be_taken_at_once(store: Store) -> None:
    assert await taken(store.permit("k", 2, 7)) == 7


async def test_permits_come_back_at_the_rate_and_no_more_than_the_burst(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 2, 7)
    await permit.take(7)
    clock.now += 1.6
    assert await taken(permit) == 3
    clock.now += 0.4
    assert await taken(permit) == 1
    clock.now += 1000
    assert await taken(permit) == 7


async def test_what_is_refused_says_how_long_and_takes_nothing(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 0.5, 3)
    await permit.take(3)
    assert [await permit.take() for _ in range(3)] == [2.0] * 3
    clock.now += 0.5
    assert await permit.take() == 1.5
    assert await permit.take(3) == 5.5
    clock.now += 1.5
    assert await permit.take() == 0


async def test_several_are_taken_all_or_none(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 1, 5)
    assert await permit.take(3) == 0
    assert await permit.take(3) == 1
    assert await permit.take(2) == 0


@pytest.mark.parametrize(("rate", "burst"), [(1 / 86400, 1), (1 / 7, 3), (1000 / 60, 1000), (1e5, 10**6)])
async def test_after_the_wait_that_was_said_they_are_there(
    store: Store, clock: ManualClock, rate: float, burst: int
) -> None:
    permit = store.permit("k", rate, burst)
    await permit.take(burst)
    for n in (1, burst, 1, (burst + 1) // 2) * 10:
        wait = await permit.take(n)
        assert wait > 0
        clock.now += wait
        assert await permit.take(n) == 0


@pytest.mark.parametrize("n", [-1, 0, 4])
async def test_what_could_never_be_taken_is_a_fault(store: Store, n: int) -> None:
    permit = store.permit("k", 1, 3)
    with pytest.raises(ValueError, match="3"):
        await permit.take(n)
    assert await taken(permit) == 3


async def test_of_several_at_once_as_many_are_served_as_there_are_permits(store: Store) -> None:
    waits = await asyncio.gather(*(store.permit("k", 1, 5).take() for _ in range(20)))
    assert waits.count(0) == 5


async def test_a_key_has_its_permits_whichever_handle_takes_them(store: Store, clock: ManualClock) -> None:
    kept = store.permit("k", 1, 5)
    assert await kept.take(2) == 0
    assert await store.permit("k", 1, 5).take(2) == 0
    assert await taken(kept) == 1
    clock.now += 1000
    assert await store.permit("k", 1, 5).take(4) == 0
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
    await kept.take(5)
    clock.now += 10
    for number in range(100):
        await store.permit(f"other {number}", 1, 5).take()
    assert await kept.take(3) == 0
    assert await store.permit("k", 1, 5).take(2) == 0
    assert await kept.take() == 1


async def test_another_rate_holds_at_once_and_finds_what_was_taken(store: Store, clock: ManualClock) -> None:
    """Half of the old burst is half of the new one where both fill in the same time; waits follow the new rate."""
    await store.permit("half", 10, 100).take(50)
    assert await taken(store.permit("half", 1, 10)) == 5
    await store.permit("slow", 1 / 86400, 1).take()
    fast = store.permit("slow", 1, 60)
    assert await fast.take() == 1
    clock.now += 1
    assert await fast.take() == 0


async def test_what_is_of_one_resource_is_not_of_another(store: Store) -> None:
    one, other = (of(store, name) for name in ("one", "other"))
    assert await one.add("k", 60)
    assert not await other.has("k")
    assert await other.add("k", 60)
    assert await taken(one.permit("k", 1, 2)) == 2
    assert await taken(other.permit("k", 1, 2)) == 2


async def test_a_permit_tells_what_is_left_and_when_all_will_be_there(store: Store, clock: ManualClock) -> None:
    permit = store.permit("k", 2, 7)
    await permit.take()
    assert permit.remaining() == (6, 0.5)
    await permit.take(6)
    assert permit.remaining() == (0, 3.5)
    await permit.take(3)
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
                await permit.take(min(n, burst))
            left, full_in = permit.remaining()
            assert 0 <= full_in <= burst / rate + 1e-6
            if left:
                assert await permit.take(left) == 0, kind
            # What is leased comes on top of a burst that came back meanwhile (decision 35).
            assert await taken(permit) <= (max(1, burst // SHARE) if "redis" in kind else 0), kind


async def test_a_key_may_be_marked_again_and_again(store: Store, clock: ManualClock) -> None:
    await store.mark("k", 60)
    clock.now += 50
    await store.mark("k", 60)
    clock.now += 50
    assert await store.has("k")
    assert not await store.add("k", 60)
    clock.now += 11
    assert not await store.has("k")


async def test_a_document_is_there_until_its_time_is_over_or_another_replaces_it(
    store: Store, clock: ManualClock
) -> None:
    assert await store.get("k") is None
    assert await store.put("k", b"one", 60)
    assert await store.get("k") == b"one"
    clock.now += 59
    assert await store.get("k") == b"one"
    assert await store.put("k", b"", 60)
    assert await store.get("k") == b""
    clock.now += 61
    assert await store.get("k") is None


async def test_a_document_holds_any_bytes_up_to_a_size(store: Store, kind: str) -> None:
    sealing = SEAL_BYTES if "resource" in kind else 0
    largest = (bytes(range(256)) * (MAX_DOCUMENT // 256))[sealing:]
    assert await store.put("k", largest, 60)
    assert await store.get("k") == largest
    assert not await store.put("k", largest + b"!", 60)
    assert await store.get("k") == largest


async def test_a_document_a_marker_and_a_lock_of_one_key_are_strangers(store: Store) -> None:
    assert await store.put("k", b"one", 60)
    assert await store.add("k", 60)
    token = await store.acquire("k", 60)
    assert token
    await store.release("k", token)
    assert await store.get("k") == b"one"
    assert await store.has("k")


async def test_of_several_one_gets_the_lock_and_the_next_once_it_is_released(store: Store) -> None:
    tokens = await asyncio.gather(*(store.acquire("k", 60) for _ in range(10)))
    (held,) = filter(None, tokens)
    await store.release("k", "another token")
    assert await store.acquire("k", 60) == ""
    await store.release("k", held)
    assert await store.acquire("k", 60) not in ("", held)


async def test_a_lock_ends_with_its_time_and_its_token_does_not_end_the_next_one(
    store: Store, clock: ManualClock
) -> None:
    first = await store.acquire("k", 60)
    clock.now += 61
    assert await store.acquire("k", 60)
    await store.release("k", first)
    assert await store.acquire("k", 60) == ""


async def test_a_notice_reaches_each_subscriber_of_its_topic_and_no_other(store: Store) -> None:
    heard: list[tuple[str, bytes]] = []
    end = store.subscribe("topic", lambda notice: heard.append(("one", notice)))
    store.subscribe("topic", lambda notice: heard.append(("two", notice)))
    store.subscribe("other", lambda notice: heard.append(("other", notice)))
    await store.publish("topic", b"\x00 1")
    end()
    await store.publish("topic", b"2")
    await store.publish("nobody's", b"3")
    assert heard == [("one", b"\x00 1"), ("two", b"\x00 1"), ("two", b"2")]


async def test_a_notice_that_is_too_large_is_a_fault(store: Store) -> None:
    with pytest.raises(ValueError, match=str(MAX_NOTICE)):
        await store.publish("topic", b"x" * (MAX_NOTICE + 1))


async def test_documents_locks_and_notices_are_of_one_resource_too(store: Store) -> None:
    one, other = (of(store, name) for name in ("one", "other"))
    heard: list[bytes] = []
    other.subscribe("k", heard.append)
    await one.put("k", b"one", 60)
    assert await one.acquire("k", 60)
    await one.publish("k", b"notice")
    assert await other.get("k") is None
    assert await other.acquire("k", 60)
    assert heard == []


async def test_what_one_resource_keeps_and_tells_is_sealed_and_what_strangers_write_is_dropped(
    store: Store, kind: str
) -> None:
    """Who can write to the store can repeat a notice at its topic, and can make none."""
    one, strange = (ResourceStore(store, SigningKeys((secret,), "one")) for secret in (b"s" * 32, b"x" * 32))
    heard: list[bytes] = []
    passed: list[bytes] = []
    one.subscribe("k", heard.append)
    store.subscribe(one._own("k"), passed.append)
    await one.publish("k", b"a person's answer")
    assert b"answer" not in passed[0]
    await store.publish(one._own("other"), passed[0])
    await strange.publish("k", b"forged")
    await store.publish(one._own("k"), b"")
    assert heard == [b"a person's answer"]
    await store.publish(one._own("k"), passed[0])
    assert heard == [b"a person's answer"] * 2

    assert await one.put("k", b"tools", 60)
    assert b"tools" not in (await store.get(one._own("k")) or b"")
    assert await strange.put("k", b"forged", 60)
    assert await one.get("k") is None
