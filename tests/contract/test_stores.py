"""The contract of every store (:class:`gateway.store.Store`): markers, documents, locks, notices.

Its permits are in test_permits.py. A further store is a branch of :func:`tests.contract.stores.opened`.
Tests of one store alone are in tests/unit and tests/fault.
"""

from __future__ import annotations

import asyncio

import pytest

from gateway.signing import SEAL_BYTES, SigningKeys
from gateway.store import MAX_DOCUMENT, MAX_NOTICE, ResourceStore, Store
from tests.contract.stores import of, taken
from tests.each import each
from tests.manual_clock import ManualClock
from tests.waiting import until

_TIMES_BYTES = 16
"""When a sealed document was made, and when it ends."""


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


@each("key", ["", " ", "a:b", "ä", "k" * 1000, "\n", "\x00"])
async def test_any_text_is_a_key(store: Store, key: str) -> None:
    await store.add("other", 60)
    assert await store.add(key, 60)
    assert await store.has(key)


async def test_a_marker_is_no_permit(store: Store) -> None:
    await store.add("k", 60)
    assert await store.permit("k", 1, 1).take() == 0
    assert not await store.add("k", 60)


async def test_what_is_of_one_resource_is_not_of_another(store: Store) -> None:
    one, other = (of(store, name) for name in ("one", "other"))
    assert await one.add("k", 60)
    assert not await other.has("k")
    assert await other.add("k", 60)
    assert await taken(one.permit("k", 1, 2)) == 2
    assert await taken(other.permit("k", 1, 2)) == 2


async def test_a_mark_for_no_time_ends_an_earlier_one(store: Store, other: Store) -> None:
    await store.mark("k", 60)
    await other.mark("k", 60)
    await store.mark("k", 0)
    await until(lambda: other.has("k"), lambda marked: not marked)
    assert not await store.has("k")
    assert await other.add("k", 60)


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
    sealing = SEAL_BYTES + _TIMES_BYTES if "resource" in kind else 0
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


async def test_a_lock_lasts_as_long_as_its_holder_renews_it(store: Store, other: Store, clock: ManualClock) -> None:
    held = await store.acquire("k", 3)
    for _ in range(10):
        clock.now += 2
        assert await store.acquire("k", 3, held) == held
        assert await other.acquire("k", 3) == ""
    clock.now += 3.1
    assert await other.acquire("k", 3)


async def test_a_lock_that_is_lost_or_released_is_not_renewed(store: Store, other: Store, clock: ManualClock) -> None:
    lost = await store.acquire("k", 3)
    clock.now += 3.1
    assert await store.acquire("k", 60, lost) == ""
    held = await other.acquire("k", 3)
    assert held
    clock.now += 2
    assert await store.acquire("k", 60, lost) == ""
    await store.release("k", lost)
    await store.release("k", "")
    assert await store.acquire("k", 3) == ""
    clock.now += 1.1
    held = await other.acquire("k", 3)
    assert held
    await other.release("k", held)
    assert await other.acquire("k", 60, held) == ""
    await store.release("k", "")
    assert await store.acquire("k", 3)


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


@pytest.mark.parametrize("skew", [-50, 0, 50])
async def test_an_old_document_that_somebody_puts_back_is_refused(store: Store, skew: float) -> None:
    """Also where the clocks of two replicas differ by less than a minute."""
    keys, wall = SigningKeys((b"s" * 32,), "one"), ManualClock()
    lister, other = (ResourceStore(store, keys, clock) for clock in (wall, lambda: wall.now + skew))
    assert await lister.put("k", b"old tools", 100)
    old = await store.get(lister._own("k"))
    assert old is not None
    assert await other.get("k") == b"old tools"
    wall.now += 90
    assert await store.put(lister._own("k"), old, 3600)
    assert await lister.get("k") == b"old tools"
    assert await other.get("k") == (None if skew > 0 else b"old tools")
    wall.now += 10
    assert await lister.get("k") is None
    wall.now += 50
    assert await other.get("k") is None
    assert await lister.put("k", b"new tools", 100)
    assert await other.get("k") == b"new tools"


async def test_a_document_from_the_future_is_refused(store: Store) -> None:
    """A replica whose clock was wrong would else have made one that is good for ever."""
    keys = SigningKeys((b"s" * 32,), "one")
    wrong, right = (ResourceStore(store, keys, ManualClock(now)) for now in (10_000, 1000))
    assert await wrong.put("k", b"tools", 60)
    assert await right.get("k") is None


async def test_a_notice_is_no_document_though_both_are_sealed(store: Store) -> None:
    one = ResourceStore(store, SigningKeys((b"s" * 32,), "one"))
    passed: list[bytes] = []
    store.subscribe(one._own("k"), passed.append)
    await one.publish("k", b"x" * 100)
    assert await store.put(one._own("k"), passed[0], 60)
    assert await one.get("k") is None
