"""Full collections wait for a listing, and for no longer."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from gateway.concurrency.collector import LARGE, GarbageCollector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class Knot:
    """Garbage that only the collector can find."""

    def __init__(self) -> None:
        self.itself = self


def test_full_collections_are_postponed_until_the_last_of_overlapping_listings_is_done() -> None:
    collector = GarbageCollector()
    usual = gc.get_threshold()
    first, second = collector.gc_paused(), collector.gc_paused()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[2] > 100_000
    first.__exit__(None, None, None)
    assert gc.get_threshold()[2] > 100_000
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual


async def test_what_is_to_be_collected_during_a_listing_is_collected_behind_it() -> None:
    collector, knot = GarbageCollector(), Knot()
    garbage = weakref.ref(knot)
    with collector.gc_paused():
        gc.collect()  # now it is old
        del knot
        collector.collect()
        assert garbage() is not None
    await asyncio.sleep(0)
    assert garbage() is None


async def test_listings_that_follow_each_other_without_end_do_not_put_it_off_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector, knot, now = GarbageCollector(), Knot(), time.monotonic()
    garbage = weakref.ref(knot)
    with collector.gc_paused():
        gc.collect()
        del knot
        collector.collect()
        monkeypatch.setattr(time, "monotonic", lambda: now + 11)
        with collector.gc_paused():
            assert garbage() is not None
        await asyncio.sleep(0)
        assert garbage() is None


def test_thresholds_that_are_set_during_a_listing_hold_behind_it() -> None:
    collector = GarbageCollector()
    with collector.gc_paused():
        collector.tune((9_000, 8, 7))
        assert gc.get_threshold()[2] > 100_000
    assert gc.get_threshold() == (9_000, 8, 7)


def test_many_small_catalogs_are_set_aside_as_a_large_one_is() -> None:
    collector, before = GarbageCollector(), gc.get_freeze_count()
    for _ in range(LARGE // 100):
        assert gc.get_freeze_count() == before
        collector.grow(100)
    assert gc.get_freeze_count() > before


def test_a_listing_that_fails_leaves_the_collector_as_it_was() -> None:
    usual = gc.get_threshold()
    with pytest.raises(ValueError, match="no listing"), GarbageCollector().gc_paused():
        raise ValueError("no listing")
    assert gc.get_threshold() == usual


def test_what_is_set_aside_is_freed_once_nobody_refers_to_it_and_young_garbage_at_once() -> None:
    class Tool:
        pass

    tools, knot = [Tool() for _ in range(3)], Knot()
    alive, garbage = weakref.ref(tools[0]), weakref.ref(knot)
    del knot
    GarbageCollector().freeze()
    assert gc.get_freeze_count() > 0
    assert garbage() is None
    assert alive() is not None
    tools.clear()
    assert alive() is None
