"""Listings that shrink, flap, grow absurd or cannot be had, and results that break what they promise (security S17 to
S19). Nothing here sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.discovery.refreshing import CONFIRMED_AFTER, RETRY_AFTER
from gateway.discovery.views import DENIED_TTL, MAX_TOOLS
from gateway.errors import CatalogUnavailable, Forbidden
from gateway.listing.dialect import NoListing, Step
from gateway.model import Caller, Catalog, SourceAnswer, Tool, View
from tests.authorization.world import refusal
from tests.discovering import ANYBODY, MAX_STALE, TTL, World, a_world, listing_of, no_listing, refreshed

MANY = tuple(f"m{n:02}" for n in range(40))
TOO_MANY = tuple(f"m{n}" for n in range(MAX_TOOLS + 1))
NUMBER = {"type": "number"}
FALLBACK = listing_of("spare")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


@pytest.fixture
async def spared() -> AsyncIterator[World]:
    """A world with a fallback."""
    async with a_world(FALLBACK) as world:
        yield world


def caller(name: str) -> Caller:
    return Caller(view=View("https://issuer", name))


async def test_a_listing_without_a_digest_is_not_shown_again_to_a_caller_who_was_refused_since(world: World) -> None:
    """Nothing is kept by which it could be built again."""
    bob = caller("bob")
    assert await world.names(bob) == ("a", "b")
    world.now += TTL
    world.backend.failure = refusal(unauthorized=False)
    await world.names(bob)
    await world.settled()
    for _ in range(3):
        with pytest.raises(Forbidden):
            await world.names(bob)
        world.now += DENIED_TTL
    assert world.fetches == 4


# --- shrinking ------------------------------------------------------------------------------------------------


async def test_a_listing_that_loses_most_of_its_tools_is_believed_only_after_a_minute(world: World) -> None:
    world.backend.methods = MANY
    await world.names()
    world.backend.methods = MANY[:10]
    started = world.now + TTL
    for seconds in (0, 20, CONFIRMED_AFTER - 1):
        assert await refreshed(world, started + seconds) == MANY
    assert await refreshed(world, started + CONFIRMED_AFTER + RETRY_AFTER) == MANY[:10]


@pytest.mark.parametrize(("before", "after"), [(40, 20), (10, 1), (3, 1), (40, 39)])
async def test_what_is_lost_in_the_course_of_things_is_gone_at_once(world: World, before: int, after: int) -> None:
    world.backend.methods = MANY[:before]
    await world.names()
    world.backend.methods = MANY[:after]
    assert await refreshed(world, world.now + TTL) == MANY[:after]


async def test_a_failure_is_no_empty_listing(world: World) -> None:
    await world.names()
    world.backend.failure = NoListing([Step("GET /list", SourceAnswer("HTTP 404"))])
    assert await refreshed(world, world.now + MAX_STALE) == ("a", "b")


# --- flapping -------------------------------------------------------------------------------------------------


async def found(world: World, name: str, who: Caller = ANYBODY) -> Tool | None:
    return await world.discovery.find_tool(who, name)


async def test_a_tool_that_vanished_can_be_called_for_another_ttl(world: World) -> None:
    await world.names()
    world.backend.methods = ("a",)
    assert await refreshed(world, world.now + TTL) == ("a",)
    assert (await found(world, "b")) is not None
    world.now += TTL - 0.1
    assert (await found(world, "b")) is not None
    world.now += 0.1
    await world.settled()
    assert await found(world, "b") is None


async def test_while_a_listing_flaps_the_tools_of_either_side_can_be_called(world: World) -> None:
    sides = (("a", "b"), ("a", "c"))
    for turn in range(4):
        world.backend.methods = sides[turn % 2]
        assert await refreshed(world, world.now + TTL) == sides[turn % 2]
        if turn:
            assert [(await found(world, name)) is not None for name in "abcd"] == [True, True, True, False]


async def test_what_the_operator_hides_is_gone_at_once(world: World) -> None:
    await world.names()
    world.backend.methods = ("a",)
    await refreshed(world, world.now + TTL)
    await world.reload(exclude=("b",))
    assert await found(world, "b") is None


async def test_a_tool_that_vanished_from_one_view_is_not_found_in_another(world: World) -> None:
    await world.names(caller("ada"))
    world.backend.methods = ("a",)
    await world.names(caller("eve"))
    assert await found(world, "b", caller("eve")) is None


# --- growing --------------------------------------------------------------------------------------------------


async def test_a_listing_beyond_the_bound_is_refused_and_the_last_good_one_serves(world: World) -> None:
    await world.names()
    world.backend.methods = TOO_MANY
    assert await refreshed(world, world.now + TTL) == ("a", "b")


async def test_a_first_listing_beyond_the_bound_says_so_and_what_to_do(world: World) -> None:
    world.backend.methods = TOO_MANY
    with pytest.raises(CatalogUnavailable) as caught:
        await world.names()
    assert "5001 methods to offer, more than 5000; narrow catalog.include" in str(caught.value.__cause__)


async def test_methods_that_are_hidden_do_not_count() -> None:
    async with a_world(include=("m[012]",)) as world:
        world.backend.methods = TOO_MANY
        assert await world.names() == ("m0", "m1", "m2")


async def test_patterns_that_offer_more_than_the_bound_are_told_and_nothing_is_taken_over() -> None:
    async with a_world(include=("m[012]",)) as world:
        world.backend.methods = TOO_MANY
        await world.names()
        before = world.discovery
        with pytest.raises(NoListing, match="5001 methods to offer, more than 5000"):
            await world.reload(include=("*",))
        assert (await before.catalog(ANYBODY)).names == ("m0", "m1", "m2")


# --- the fallback ---------------------------------------------------------------------------------------------


async def test_the_fallback_serves_where_there_never_was_a_listing(spared: World) -> None:
    spared.backend.failure = no_listing()
    assert await spared.names() == ("spare",)
    assert spared.discovery.seconds_fresh(ANYBODY.view) == 0


async def test_the_fallback_comes_after_the_last_good_listing(spared: World) -> None:
    told: list[View] = []
    spared.discovery.after_publish = told.append
    await spared.names()
    spared.backend.failure = no_listing()
    assert await refreshed(spared, 5000 + MAX_STALE) == ("a", "b")
    assert told == []
    assert await refreshed(spared, 5000 + MAX_STALE + 0.1) == ("spare",)
    assert told == [ANYBODY.view]


@pytest.mark.parametrize(
    ("age", "serving"), [(MAX_STALE, "the last good listing"), (MAX_STALE + 0.1, "nothing, or the fallback")]
)
async def test_the_log_says_what_serves_by_the_age_of_the_last_good_listing(
    world: World, age: float, serving: str
) -> None:
    await world.names()
    world.backend.failure = no_listing()
    with capture_logs() as lines, suppress(CatalogUnavailable):
        assert (await refreshed(world, world.now + age) == ("a", "b")) is (age == MAX_STALE)
    assert [line["serving"] for line in lines if line["event"] == "listing failed"] == [serving]


async def test_a_listing_that_can_be_had_again_takes_the_fallbacks_place_and_listeners_hear_of_it(
    spared: World,
) -> None:
    told: list[View] = []
    spared.discovery.after_publish = told.append
    spared.backend.failure = no_listing()
    await spared.names()
    spared.backend.failure = None
    assert await refreshed(spared, spared.now + 1) == ("a", "b")
    assert told == [ANYBODY.view]


async def test_once_the_fallback_serves_nobody_waits_for_a_backend_that_hangs(spared: World) -> None:
    spared.backend.failure = no_listing()
    await spared.names()
    spared.backend.gate.clear()
    spared.now += 1
    assert await spared.names() == ("spare",)
    await asyncio.sleep(0)
    assert spared.fetches == 2


async def test_the_fallback_follows_the_knobs(spared: World) -> None:
    spared.backend.failure = no_listing()
    await spared.names()
    await spared.reload(exclude=("spare",))
    assert await spared.names() == ()


async def test_listeners_hear_when_a_reload_changes_the_fallback_they_see(spared: World) -> None:
    spared.backend.failure = no_listing()
    await spared.names()
    told: list[View] = []
    spared.discovery.after_publish = told.append
    await spared.reload(exclude=("spare",))
    assert await spared.names() == ()
    assert told == [ANYBODY.view]


async def test_a_rush_of_callers_has_the_fallback_built_once(spared: World) -> None:
    spared.backend.failure = no_listing()
    made: list[Catalog] = []
    spared.discovery.before_publish = made.append
    catalogs = await asyncio.gather(*(spared.discovery.catalog(caller(str(n))) for n in range(50)))
    assert all(catalog is catalogs[0] for catalog in catalogs)
    assert {id(catalog) for catalog in made} == {id(catalogs[0])}


async def test_a_fallback_beyond_the_bound_is_no_listing_either() -> None:
    async with a_world(listing_of(*TOO_MANY)) as world:
        world.backend.failure = no_listing()
        with pytest.raises(CatalogUnavailable) as caught:
            await world.names()
        assert "more than 5000; narrow catalog.include" in str(caught.value.__cause__)


async def test_a_promise_that_the_fallback_makes_is_broken_like_any_other() -> None:
    async with a_world(listing_of("a", results={"a": NUMBER})) as world:
        world.backend.failure = no_listing()
        await world.names()
        told: list[View] = []
        world.discovery.after_publish = told.append
        await broken(world, "a")
        assert await outputs(world) == {"a": None}
        assert told == [ANYBODY.view]


async def test_a_caller_to_whom_the_listing_is_denied_gets_no_fallback(spared: World) -> None:
    spared.backend.failure = NoListing([Step("rpc.discover", SourceAnswer("HTTP 401", denied=True))])
    with pytest.raises(Forbidden):
        await spared.names(caller("eve"))
    assert await spared.names() == ("spare",)


# --- load -----------------------------------------------------------------------------------------------------


async def test_who_waits_too_long_is_told_to_come_back_and_the_listing_goes_on() -> None:
    async with a_world(None, 0.01) as world:
        world.backend.gate.clear()
        with pytest.raises(CatalogUnavailable) as caught:
            await world.names()
        assert caught.value.retry_after == 1
        world.backend.gate.set()
        await world.settled()
        assert await world.names() == ("a", "b")
        assert world.fetches == 1


# --- broken promises ------------------------------------------------------------------------------------------


async def outputs(world: World, who: Caller = ANYBODY) -> dict[str, Any]:
    return {tool.name: tool.output_schema for tool in (await world.discovery.catalog(who)).tools}


async def broken(world: World, name: str) -> Tool:
    tool = await found(world, name)
    assert tool is not None
    await world.discovery.drop_output_schema(tool)
    return tool


async def test_an_output_schema_that_a_result_broke_is_gone_from_every_view_and_listeners_hear_of_it(
    world: World,
) -> None:
    world.backend.results = {"a": NUMBER, "b": NUMBER}
    ada = caller("ada")
    assert await outputs(world) == await outputs(world, ada) == {"a": NUMBER, "b": NUMBER}
    told: list[View] = []
    world.discovery.after_publish = told.append
    await broken(world, "a")
    assert await outputs(world) == await outputs(world, ada) == {"a": None, "b": NUMBER}
    assert sorted(told, key=str) == sorted([ANYBODY.view, ada.view], key=str)
    (a, _) = (await world.discovery.catalog(ANYBODY)).tools
    assert a.meta["outputSchemaDropped"] == "a result broke it"
    assert world.fetches == 2


async def test_it_stays_away_over_refreshes_and_reloads_until_it_changes(world: World) -> None:
    world.backend.results = {"a": NUMBER}
    await world.names()
    await broken(world, "a")
    told: list[View] = []
    world.discovery.after_publish = told.append
    await refreshed(world, world.now + TTL)
    await world.reload()
    assert (await outputs(world))["a"] is None
    assert told == []
    world.backend.results = {"a": {"type": "string"}}
    await refreshed(world, world.now + TTL)
    assert (await outputs(world))["a"] == {"type": "string"}
    assert told == [ANYBODY.view]


async def test_a_second_break_of_the_same_schema_changes_nothing(world: World) -> None:
    world.backend.results = {"a": NUMBER}
    await world.names()
    tool = await broken(world, "a")
    told: list[View] = []
    world.discovery.after_publish = told.append
    await world.discovery.drop_output_schema(tool)
    assert told == []


async def test_a_tool_that_vanished_comes_back_without_it(world: World) -> None:
    world.backend.results = {"a": NUMBER}
    await world.names()
    await broken(world, "a")
    world.backend.methods = ("b",)
    await refreshed(world, world.now + TTL)
    vanished = await found(world, "a")
    assert vanished is not None
    assert vanished.output_schema is None
