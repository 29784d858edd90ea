"""Callers' own listings over a reload: kept where it hides nothing, taken away at once where it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from gateway.errors import CatalogUnavailable
from gateway.settings import CatalogSettings
from tests.authorization.world import ANN, BOB, MAX_STALE, TTL, World, a_world, caller, down


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


async def test_a_reload_hides_a_tool_from_every_view_also_from_one_that_is_being_fetched(world: World) -> None:
    for one in (ANN, BOB):
        await world.names(one)
    world.gate.clear()
    waiting = asyncio.create_task(world.names(caller("cy-1", "cy")))
    await world.has_asked("ann-1", "bob-1", "cy-1")
    world.knobs = CatalogSettings(ttl=TTL, max_stale=MAX_STALE, exclude=("a",))
    await world.discovery.rebuild()
    assert world.discovery.current(ANN.view) is None
    world.gate.set()
    assert await waiting == ("b",)
    assert [await world.names(one) for one in (ANN, BOB)] == [("b",), ("b",)]
    assert world.told == [ANN.view, BOB.view]


def knobs(**changed: Any) -> CatalogSettings:
    return CatalogSettings.model_validate({"ttl": TTL, "max_stale": MAX_STALE, **changed})


async def reloaded(world: World, new: CatalogSettings, *, forget: bool = False) -> None:
    world.knobs = new
    await world.discovery.rebuild(forget=forget)


LISTED_ANEW: Final = ("a", "c")


@pytest.mark.parametrize(
    "changed",
    [
        {"page_size": 7},
        {"rest_page_size": 7},
        {"ttl": 50.0},
        {"max_tools": 1},
        {"notify_interval": 1.0},
        {"search": True},
        {"exclude": ["rpc.*", "z"]},
        {"tools": {"a": {"title": "Alpha", "description": "The first.", "timeout": 3}}},
        {"tools": {"z": {"scopes": ["admin"], "arguments": {"key": {"default": "k", "hidden": True}}}}},
    ],
    ids=lambda changed: ", ".join(changed),
)
async def test_a_reload_that_hides_nothing_keeps_every_view_while_the_backend_cannot_list(
    world: World, changed: dict[str, Any]
) -> None:
    for one in (ANN, BOB):
        await world.names(one)
    await reloaded(world, knobs(**changed))
    for token in ("ann-1", "bob-1"):
        world.listed[token] = down()
    for one in (ANN, BOB, ANN, BOB):
        assert await world.names(one) == ("a", "b")
    assert world.discovery.remaining(ANN.view) == 0


async def test_a_view_that_a_reload_kept_is_stale_and_asked_for_anew(world: World) -> None:
    await world.names(ANN)
    world.listed["ann-1"] = LISTED_ANEW
    await reloaded(world, knobs(page_size=7))
    assert await world.names(ANN) == ("a", "b")
    await world.settled()
    assert await world.names(ANN) == LISTED_ANEW
    assert world.asked == ["ann-1", "ann-1"]
    assert world.told == [ANN.view]


@pytest.mark.parametrize(
    "changed",
    [
        {"include": ["b"]},
        {"exclude": ["a"]},
        {"tools": {"a": {"scopes": ["admin"]}}},
        {"tools": {"*": {"requires": {"sampling": {}}}}},
        {"tools": {"a": {"confirm": True}}},
        {"tools": {"a": {"annotations": {"destructiveHint": True}}}},
        {"tools": {"a": {"arguments": {"key": {"default": "k", "hidden": True}}}}},
        {"confirm_destructive": True},
    ],
    ids=str,
)
async def test_a_reload_that_hides_something_takes_it_away_at_once_also_where_the_backend_cannot_list(
    world: World, changed: dict[str, Any]
) -> None:
    await world.names(ANN)
    world.listed["ann-1"] = down()
    await reloaded(world, knobs(**changed))
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)
    with pytest.raises(CatalogUnavailable):
        await world.discovery.find(ANN, "a")


async def test_a_reload_that_hides_something_of_one_view_keeps_the_others(world: World) -> None:
    world.listed["bob-1"] = ("b",)
    for one in (ANN, BOB):
        await world.names(one)
    for token in ("ann-1", "bob-1"):
        world.listed[token] = down()
    await reloaded(world, knobs(exclude=["a"]))
    assert await world.names(BOB) == ("b",)
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)


async def test_what_a_second_reload_hides_is_gone_although_the_first_hid_nothing(world: World) -> None:
    await world.names(ANN)
    world.listed["ann-1"] = down()
    await reloaded(world, knobs(page_size=7))
    assert await world.names(ANN) == ("a", "b")
    await world.settled()
    await reloaded(world, knobs(page_size=7, exclude=["b"]))
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)


async def test_other_pins_that_hold_tools_back_take_every_view_away(world: World) -> None:
    await world.names(ANN)
    await reloaded(world, knobs(), forget=True)
    assert world.discovery.current(ANN.view) is None


async def test_a_listing_that_was_under_way_brings_nothing_back_that_a_reload_hid(world: World) -> None:
    await world.names(ANN)
    world.now += TTL
    world.gate.clear()
    assert await world.names(ANN) == ("a", "b")
    await world.has_asked("ann-1", "ann-1")
    await reloaded(world, knobs(exclude=["b"]))
    world.gate.set()
    await world.settled()
    assert await world.names(ANN) == ("a",)
    assert await world.discovery.find(ANN, "b") is None
