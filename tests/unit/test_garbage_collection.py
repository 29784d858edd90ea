"""Full collections wait for a listing, and for no longer."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.discovery.refreshing import GarbageCollector


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
    assert gc.get_threshold()[:2] == usual[:2]
    assert gc.get_threshold()[2] > 100_000
    first.__exit__(None, None, None)
    assert gc.get_threshold()[2] > 100_000
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual


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
