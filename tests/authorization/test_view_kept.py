"""Callers' own listings over a reload: their catalogs are built anew, and nobody is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.discovery.views import MAX_TOOLS, Listings
from gateway.errors import CatalogUnavailable, Forbidden
from gateway.model import Listing
from gateway.settings import CatalogSettings
from tests.authorization.world import ANN, BOB, MAX_STALE, TTL, World, a_world, down, refusal


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


def knobs(**changed: Any) -> CatalogSettings:
    return CatalogSettings.model_validate({"ttl": TTL, "max_stale": MAX_STALE, **changed})


async def test_a_reload_builds_every_view_anew_while_the_backend_cannot_list(world: World) -> None:
    for one in (ANN, BOB):
        await world.names(one)
    for token in ("ann-1", "bob-1"):
        world.listed[token] = down()
    await world.reload(knobs(exclude=["a"]))
    for one in (ANN, BOB, ANN, BOB):
        assert await world.names(one) == ("b",)
        assert await world.discovery.find_tool(one, "a") is None
    assert world.told == [ANN.view, BOB.view]
    assert world.asked == ["ann-1", "bob-1"]


@pytest.mark.parametrize(
    "changed",
    [
        {"tools": {"a": {"title": "Alpha"}}},
        {"tools": {"a": {"scopes": ["admin"]}}},
        {"tools": {"a": {"confirm": True}}},
        {"tools": {"a": {"arguments": {"key": {"default": "k", "hidden": True}}}}},
        {"tools": {"*": {"confirm": "destructive"}}},
    ],
    ids=str,
)
async def test_nothing_that_was_built_by_other_knobs_is_shown_again(world: World, changed: dict[str, Any]) -> None:
    before = await world.discovery.catalog(ANN)
    world.listed["ann-1"] = down()
    await world.reload(knobs(**changed))
    after = await world.discovery.catalog(ANN)
    assert after is not before
    assert (after.digest == before.digest) is ("destructive" in str(changed)), "neither tool is marked destructive"


async def test_a_view_that_is_built_anew_is_as_fresh_as_its_listing(world: World) -> None:
    await world.names(ANN)
    world.now += TTL / 4
    await world.reload(knobs(page_size=7))
    assert await world.names(ANN) == ("a", "b")
    assert world.discovery.seconds_fresh(ANN.view) == TTL * 3 / 4
    assert world.told == [], "nothing differs"


async def test_a_caller_whose_listing_cannot_be_offered_by_the_new_knobs_is_listed_anew(world: World) -> None:
    world.listed["ann-1"] = ("a", *(f"m{number}" for number in range(MAX_TOOLS)))
    await world.reload(knobs(include=["a"]))
    assert await world.names(ANN) == ("a",)
    await world.reload(knobs())
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)
    world.listed["ann-1"] = ("a",)
    world.now += 60
    assert await world.names(ANN) == ("a",)


async def test_a_stream_has_its_callers_view_built_anew_and_asks_nobody(world: World) -> None:
    await world.names(ANN)
    await world.reload(knobs(exclude=["a"]))
    world.discovery.refresh_if_stale(ANN)
    await world.settled()
    assert world.told == [ANN.view]
    assert world.asked == ["ann-1"]


async def test_before_another_backend_every_view_is_asked_for_and_told_of_where_it_differs(world: World) -> None:
    world.listed["bob-1"] = ("b",)
    for one in (ANN, BOB):
        await world.names(one)
    world.listed["ann-1"] = ("c",)
    await world.reload(world.knobs, listings=False)
    assert [await world.names(one) for one in (ANN, BOB)] == [("c",), ("b",)]
    assert world.told == [ANN.view]
    assert world.asked == ["ann-1", "bob-1"] * 2


async def test_a_listing_that_was_under_way_brings_nothing_back_that_a_reload_hid(world: World) -> None:
    await world.names(ANN)
    world.now += TTL
    world.gate.clear()
    assert await world.names(ANN) == ("a", "b")
    await world.has_asked("ann-1", "ann-1")
    await world.reload(knobs(exclude=["b"]))
    world.gate.set()
    await world.settled()
    assert await world.names(ANN) == ("a",)
    assert await world.discovery.find_tool(ANN, "b") is None


async def test_callers_with_equal_listings_share_what_is_kept_and_the_oldest_are_let_go() -> None:
    listings = Listings(most=250)
    made = [Listing("static", (), digest=name, size=100) for name in ("one", "two", "three")]
    assert [listings.add(listing) for listing in (made[0], made[1], made[0], made[2])] == ["one", "two", "one", "three"]
    assert [listing.digest in listings for listing in made] == [True, False, True]
    assert listings.add(Listing("static", (), digest="huge", size=251)) == ""
    assert listings.add(Listing("static", ())) == ""


async def test_after_a_failure_a_reload_has_the_next_caller_ask_at_once(world: World) -> None:
    """What the reload brought, such as another CA file, may be the remedy."""
    world.listed["ann-1"] = down()
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)
    world.listed["ann-1"] = ("a",)
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)
    await world.reload(world.knobs)
    assert await world.names(ANN) == ("a",)


async def test_what_the_backend_denies_while_a_reload_is_made_is_not_shown_after_it(world: World) -> None:
    await world.names(ANN)
    before, world.discovery = world.discovery, world.made(callers_own=True)
    await world.discovery.prepare(before)
    world.listed["ann-1"] = refusal(unauthorized=False)
    await before.refresh(ANN)
    world.discovery.take_over(before, listings=True, catalogs=False)
    with pytest.raises(Forbidden):
        await world.names(ANN)


async def test_what_was_listed_at_another_endpoint_serves_its_own_caller_until_a_listing_or_a_refusal(
    world: World,
) -> None:
    await world.names(ANN)
    before, world.knobs = world.discovery, knobs(exclude=["a"])
    former = world.made(callers_own=True)
    await former.prepare(before)
    former.take_over(before, listings=True, catalogs=False)
    await world.reload(world.knobs, listings=False)
    world.discovery.serve_former(former)
    world.listed |= {"ann-1": ("c",), "bob-1": ("d",)}
    world.gate.clear()
    assert await world.names(ANN) == ("b",)
    with pytest.raises(CatalogUnavailable):
        await world.discovery.catalog(BOB, 0.01)
    world.gate.set()
    await world.settled()
    assert [await world.names(one) for one in (ANN, BOB)] == [("c",), ("d",)]
    for _ in range(2):
        world.discovery._views.clear()
        world.listed["ann-1"] = refusal(unauthorized=False)
        assert await world.names(ANN) == ("b",)
        await world.settled()
        with pytest.raises(Forbidden):
            await world.names(ANN)
