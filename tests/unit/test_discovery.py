"""The current catalog of each view, with a clock and a backend of the test's own. Nothing here sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.discovery.discovery import PATIENCE
from gateway.discovery.refreshing import CONFIRMED_AFTER, EMPTY_TTL
from gateway.errors import CatalogUnavailable
from gateway.listing.dialect import NoListing, Step
from gateway.model import Caller, Catalog, Listing, SourceAnswer, View
from gateway.settings import CatalogSettings
from tests.discovering import ANYBODY, MAX_STALE, TTL, World, a_world, listing_of, no_listing, refreshed


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


async def test_a_fresh_catalog_asks_the_backend_once(world: World) -> None:
    assert await world.names() == ("a", "b")
    world.now += TTL - 0.1
    assert await world.names() == ("a", "b")
    assert world.fetches == 1
    assert world.discovery.seconds_fresh(ANYBODY.view) == pytest.approx(0.1)


async def test_the_repr_says_what_is_served(world: World) -> None:
    assert repr(world.discovery) == "<Discovery 0 views, shared: None>"
    assert await world.names() == ("a", "b")
    assert repr(world.discovery) == "<Discovery 1 views, shared: <ViewState of all callers: 2 tools>>"
    world.backend.failure = no_listing()
    await world.discovery.refresh()
    assert "1 failures: " in repr(world.discovery)


async def test_a_stale_catalog_is_served_while_one_refresh_runs(world: World) -> None:
    await world.names()
    world.now += TTL
    world.backend.methods = ("c",)
    world.backend.gate.clear()
    for _ in range(5):
        assert await world.names() == ("a", "b")
    await asyncio.sleep(0)
    assert world.fetches == 2
    world.backend.gate.set()
    await world.settled()
    assert await world.names() == ("c",)
    assert world.fetches == 2


async def test_a_thousand_waiters_cost_one_fetch(world: World) -> None:
    world.backend.gate.clear()
    waiters = [asyncio.create_task(world.discovery.catalog(ANYBODY)) for _ in range(1000)]
    await asyncio.sleep(0)
    world.backend.gate.set()
    catalogs = await asyncio.gather(*waiters)
    assert world.fetches == 1
    assert all(catalog is catalogs[0] for catalog in catalogs)


async def test_a_waiter_that_is_cancelled_does_not_cancel_the_refresh(world: World) -> None:
    world.backend.gate.clear()
    first, second = (asyncio.create_task(world.discovery.catalog(ANYBODY)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    world.backend.gate.set()
    assert (await second).names == ("a", "b")
    assert first.cancelled()
    assert world.fetches == 1


async def test_each_view_has_a_catalog_of_its_own(world: World) -> None:
    bob = Caller(view=View("https://issuer", "bob"))
    await world.names()
    world.backend.methods = ("admin",)
    assert await world.names(bob) == ("admin",)
    assert await world.names() == ("a", "b")
    assert [caller.view.subject for caller in world.backend.fetches] == ["", "bob"]
    assert world.discovery.current(View("https://issuer", "eve")) is None


# --- failures -------------------------------------------------------------------------------------------------


async def test_after_a_failure_the_last_good_catalog_serves_until_it_is_too_old(world: World) -> None:
    await world.names()
    world.backend.failure = no_listing()
    for age in (TTL, MAX_STALE / 2, MAX_STALE):
        world.now = 5000 + age
        assert await world.names() == ("a", "b")
        await world.settled()
    world.now = 5000 + MAX_STALE + 0.1
    with pytest.raises(CatalogUnavailable) as caught:
        await world.names()
    assert caught.value.retry_after is not None
    assert caught.value.__cause__ is world.backend.failure


async def test_without_any_catalog_a_failure_is_said_and_when_to_come_back(world: World) -> None:
    world.backend.failure = no_listing()
    with pytest.raises(CatalogUnavailable, match="cannot be listed") as caught:
        await world.names()
    assert caught.value.status == 503
    assert caught.value.retry_after in (1, 2)
    assert caught.value.__cause__ is world.backend.failure
    assert "refused" not in caught.value.message


async def test_before_the_time_to_retry_nothing_is_asked(world: World) -> None:
    world.backend.failure = no_listing()
    for attempt, pause in enumerate((1.0, 2.0, 5.0, 15.0, 30.0, 30.0), 1):
        with pytest.raises(CatalogUnavailable):
            await world.names()
        world.now += pause - 0.01
        with pytest.raises(CatalogUnavailable):
            await world.names()
        assert world.fetches == attempt
        world.now += 0.01


async def test_the_back_off_grows_to_half_a_minute_and_ends_with_a_success(world: World) -> None:
    world.backend.failure = no_listing()
    waits = []
    for _ in range(7):
        with pytest.raises(CatalogUnavailable) as caught:
            await world.names()
        assert caught.value.retry_after is not None
        waits.append(caught.value.retry_after)
        world.now += caught.value.retry_after
    assert waits == sorted(waits)
    assert 30 <= waits[-1] == waits[-2] <= 31
    world.backend.failure = None
    assert await world.names() == ("a", "b")
    world.now += MAX_STALE + TTL
    world.backend.failure = no_listing()
    with pytest.raises(CatalogUnavailable) as caught:
        await world.names()
    assert caught.value.retry_after in (1, 2)


async def test_while_nobody_answers_for_the_backend_it_is_asked_each_second(world: World) -> None:
    world.backend.failure = NoListing([Step("rpc.discover", SourceAnswer("HTTP 502, text/html", away=True))] * 2)
    for attempt in range(1, 10):
        with pytest.raises(CatalogUnavailable):
            await world.names()
        world.now += 0.99
        with pytest.raises(CatalogUnavailable):
            await world.names()
        assert world.fetches == attempt
        world.now += 0.01


async def test_an_attempt_that_took_longer_than_a_second_is_followed_by_the_next_at_once(world: World) -> None:
    world.backend.failure = NoListing([Step("rpc.discover", SourceAnswer("no answer within 10 s", away=True))])
    world.backend.gate.clear()
    first = asyncio.create_task(world.names())
    for _ in range(5):
        await asyncio.sleep(0)
    assert world.fetches == 1
    world.now += 10
    world.backend.gate.set()
    with pytest.raises(CatalogUnavailable):
        await first
    world.backend.failure = None
    assert await world.names() == ("a", "b")


async def test_a_stale_catalog_is_not_refreshed_before_the_time_to_retry(world: World) -> None:
    await world.names()
    world.backend.failure = no_listing()
    world.now += TTL
    await world.names()
    await world.settled()
    for _ in range(10):
        await world.names()
        await world.settled()
    assert world.fetches == 2
    world.now += 1
    await world.names()
    await world.settled()
    assert world.fetches == 3


@pytest.mark.parametrize("failure", [ZeroDivisionError("bug"), KeyError("x"), RecursionError()])
async def test_an_unexpected_failure_of_the_fetch_keeps_the_last_good(world: World, failure: Exception) -> None:
    await world.names()
    world.backend.failure = failure
    world.now += TTL
    assert await world.names() == ("a", "b")
    await world.settled()
    assert await world.names() == ("a", "b")
    world.backend.failure = None
    world.backend.methods = ("c",)
    world.now += 1
    await world.names()
    await world.settled()
    assert await world.names() == ("c",)


async def test_an_unexpected_failure_of_the_build_keeps_the_last_good(world: World) -> None:
    class Broken:
        async def build(self, listing: Listing, settings: CatalogSettings) -> Catalog:
            raise ZeroDivisionError

    await world.names()
    world.builder = Broken()
    world.now += TTL
    assert await world.names() == ("a", "b")
    await world.settled()
    assert await world.names() == ("a", "b")
    assert world.discovery.current() is not None


async def test_an_attempt_counts_as_one_whether_it_went_well_or_not(world: World) -> None:
    assert not world.discovery.first_attempt_over.is_set()
    world.backend.failure = no_listing()
    await world.discovery.refresh()
    assert world.discovery.first_attempt_over.is_set()
    assert world.discovery.current() is None


# --- empty listings -------------------------------------------------------------------------------------------


async def test_a_listing_that_shrinks_to_nothing_is_believed_only_after_a_minute(world: World) -> None:
    await world.names()
    world.backend.methods = ()
    started = world.now + TTL
    for seconds in (0, 20, 40, CONFIRMED_AFTER - 1):
        assert await refreshed(world, started + seconds) == ("a", "b")
    assert await refreshed(world, started + CONFIRMED_AFTER + 15) == ()


async def test_one_listing_with_tools_among_empty_ones_starts_the_minute_anew(world: World) -> None:
    await world.names()
    world.backend.methods = ()
    started = world.now + TTL
    assert await refreshed(world, started) == ("a", "b")
    world.backend.methods = ("a",)
    assert await refreshed(world, started + 20) == ("a",)
    world.backend.methods = ()
    assert await refreshed(world, started + 20 + TTL) == ("a",)
    assert await refreshed(world, started + 45 + TTL) == ("a",)


async def test_while_an_empty_listing_is_distrusted_the_backend_is_not_asked_all_the_time(world: World) -> None:
    await world.names()
    world.backend.methods = ()
    world.now += TTL
    for _ in range(10):
        await world.names()
        await world.settled()
    assert world.fetches == 2


async def test_a_first_listing_may_be_empty_and_is_kept_for_seconds_only(world: World) -> None:
    world.backend.methods = ()
    assert await world.names() == ()
    assert world.discovery.seconds_fresh(ANYBODY.view) == EMPTY_TTL
    world.backend.methods = ("granted",)
    assert await refreshed(world, world.now + EMPTY_TTL) == ("granted",)


# --- changes --------------------------------------------------------------------------------------------------


async def test_a_change_of_the_knobs_builds_anew_without_a_fetch(world: World) -> None:
    await world.names()
    await world.reload(exclude=("a",))
    assert await world.names() == ("b",)
    assert world.fetches == 1
    assert world.discovery.seconds_fresh(ANYBODY.view) == TTL


async def test_what_the_knobs_hide_is_no_shrinking_and_comes_back(world: World) -> None:
    await world.names()
    await world.reload(include=())
    assert await world.names() == ()
    await world.reload(ttl=TTL)
    assert await world.names() == ("a", "b")


async def test_a_listing_that_came_while_a_reload_was_made_is_had_again_at_once(world: World) -> None:
    await world.names()
    before = world.discovery
    world.knobs = CatalogSettings(ttl=TTL, max_stale=MAX_STALE, exclude=("a",))
    world.discovery = world.made()
    await world.discovery.prepare(before)
    world.backend.methods = ("b", "c")
    await before.refresh()
    world.discovery.take_over(before, listings=True, catalogs=False)
    assert world.discovery.seconds_fresh(ANYBODY.view) == 0
    assert await world.names() == ("b",), "of the listing before"
    assert await refreshed(world, world.now) == ("b", "c")


async def test_what_stands_in_for_a_listing_serves_on_over_a_reload_and_waits_for_no_backend() -> None:
    async with a_world(listing_of("stands", "in"), PATIENCE) as world, asyncio.timeout(PATIENCE / 4):
        world.backend.failure = no_listing()
        assert await world.names() == ("in", "stands")
        world.now += MAX_STALE
        world.backend.gate.clear()
        await world.reload(exclude=("in",))
        assert await world.names() == ("stands",)


async def test_listeners_hear_of_a_catalog_before_anybody_sees_it(world: World) -> None:
    heard: list[tuple[tuple[str, ...], Catalog | None]] = []
    world.discovery.before_publish = lambda catalog: heard.append((catalog.names, world.discovery.current()))
    first = await world.discovery.catalog(ANYBODY)
    assert heard == [(("a", "b"), None)]
    world.backend.methods = ("c",)
    assert await refreshed(world, world.now + TTL) == ("c",)
    assert heard[1:] == [(("c",), first)]


async def test_listeners_hear_nothing_where_nothing_changed(world: World) -> None:
    heard: list[Catalog] = []
    world.discovery.before_publish = heard.append
    await world.names()
    world.backend.methods = ("b", "a")
    await refreshed(world, world.now + TTL)
    assert len(heard) == 1
    assert world.fetches == 2


async def test_keeping_fresh_asks_at_once_and_ends_when_cancelled(world: World) -> None:
    keeping = asyncio.create_task(world.discovery.refresh_forever())
    await world.discovery.first_attempt_over.wait()
    assert world.discovery.current() is not None
    keeping.cancel()
    await asyncio.wait([keeping])
    assert keeping.cancelled()
    assert world.fetches == 1
