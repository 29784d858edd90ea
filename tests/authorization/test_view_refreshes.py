"""How callers' own views get old, are refreshed and are lost, with a clock and a backend of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from gateway.discovery.refreshing import CONFIRMED_AFTER
from gateway.discovery.views import DENIED_TTL
from gateway.errors import AuthUnavailable, CatalogUnavailable, Forbidden, GatewayError, Unauthorized
from gateway.model import SHARED
from tests.authorization.world import ANN, ANN_LATER, BOB, MAX_STALE, TTL, World, a_world, caller, down, refusal
from tests.waiting import PATIENCE


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


# --- sharing ----------------------------------------------------------------------------------------------------


async def test_equal_listings_of_different_callers_are_one_catalog_in_memory(world: World) -> None:
    first, second = [await world.discovery.catalog(one) for one in (ANN, BOB)]
    assert first is second
    assert world.asked == ["ann-1", "bob-1"]


async def test_a_caller_whose_listing_changes_leaves_the_others_theirs(world: World) -> None:
    for one in (ANN, BOB):
        await world.names(one)
    world.now += TTL
    world.listed["ann-1"] = ("c",)
    await world.names(ANN)
    await world.settled()
    assert await world.names(ANN) == ("c",)
    assert await world.names(BOB) == ("a", "b")
    assert world.told == [ANN.view]


async def test_a_view_is_refreshed_for_its_caller_alone_and_only_when_it_asks(world: World) -> None:
    for one in (ANN, BOB):
        await world.names(one)
    world.now += TTL
    for _ in range(3):
        await world.names(BOB)
    await world.settled()
    assert world.asked == ["ann-1", "bob-1", "bob-1"]


async def test_what_everybody_sees_is_asked_for_in_nobodys_name(world: World) -> None:
    for one in (ANN, BOB):
        assert await world.names(replace(one, view=SHARED)) == ("a", "b")
    assert world.asked == [""]


async def test_a_refresh_is_made_with_the_newest_token(world: World) -> None:
    await world.names(ANN)
    world.now += TTL
    await world.names(ANN_LATER)
    await world.settled()
    assert world.asked == ["ann-1", "ann-2"]


async def test_one_caller_waiting_does_not_hold_up_another(world: World) -> None:
    world.gate.clear()
    waiting = asyncio.create_task(world.names(ANN))
    await world.has_asked("ann-1")
    other = asyncio.create_task(world.names(BOB))
    await world.has_asked("ann-1", "bob-1")
    world.gate.set()
    assert await asyncio.gather(waiting, other) == [("a", "b")] * 2


# --- refused ----------------------------------------------------------------------------------------------------

REFUSALS: Final[dict[str, tuple[Exception, type[GatewayError]]]] = {
    "401": (refusal(unauthorized=True), Unauthorized),
    "403": (refusal(unauthorized=False), Forbidden),
    "no token in exchange": (Unauthorized("No.", error="invalid_token"), Unauthorized),
}


@pytest.mark.parametrize(("answer", "error"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refused_caller_loses_its_view_at_once_and_nobody_else_does(
    world: World, answer: Exception, error: type[GatewayError]
) -> None:
    for one in (ANN, BOB):
        await world.names(one)
    world.now += TTL
    world.listed["ann-1"] = answer
    await world.names(ANN)  # stale, and asked for in the background
    await world.settled()
    for _ in range(2):
        with pytest.raises(error):
            await world.names(ANN)
    assert world.discovery.current(ANN.view) is None
    assert world.discovery.seconds_fresh(ANN.view) == 0
    assert await world.names(BOB) == ("a", "b")
    assert world.asked.count("ann-1") == 2


@pytest.mark.parametrize(("answer", "error"), REFUSALS.values(), ids=REFUSALS)
async def test_another_token_of_the_same_caller_is_not_refused_with_the_first(
    world: World, answer: Exception, error: type[GatewayError]
) -> None:
    world.listed["ann-1"] = answer
    with pytest.raises(error):
        await world.names(ANN)
    assert await world.names(ANN_LATER) == ("a", "b")


async def test_a_token_that_joins_the_refresh_of_a_refused_one_gets_its_own(world: World) -> None:
    world.listed["ann-1"] = refusal(unauthorized=True)
    world.gate.clear()
    old, new = (asyncio.create_task(world.names(one)) for one in (ANN, ANN_LATER))
    await world.has_asked("ann-1")
    world.gate.set()
    async with asyncio.timeout(PATIENCE):
        assert await new == ("a", "b")
    assert world.asked == ["ann-1", "ann-2"]
    # The other one may find the refusal, or what was fetched since for the same caller.
    assert isinstance((await asyncio.gather(old, return_exceptions=True))[0], Unauthorized | tuple)


async def test_what_a_refused_caller_saw_before_is_not_shown_again_after_a_while(world: World) -> None:
    assert await world.names(ANN) == ("a", "b")
    world.now += TTL
    world.listed["ann-1"] = refusal(unauthorized=False)
    await world.names(ANN)
    await world.settled()
    for _ in range(3):
        with pytest.raises(Forbidden):
            await world.names(ANN)
        world.now += DENIED_TTL
    assert world.asked == ["ann-1"] * 4


async def test_a_refused_caller_is_asked_for_again_after_a_while(world: World) -> None:
    world.listed["ann-1"] = refusal(unauthorized=False)
    with pytest.raises(Forbidden):
        await world.names(ANN)
    del world.listed["ann-1"]
    world.now += DENIED_TTL - 0.1
    with pytest.raises(Forbidden):
        await world.names(ANN)
    world.now += 0.1
    assert await world.names(ANN) == ("a", "b")


async def test_an_old_refusal_is_not_what_a_backend_that_is_down_says(world: World) -> None:
    world.listed["ann-1"] = refusal(unauthorized=True)
    with pytest.raises(Unauthorized):
        await world.names(ANN)
    world.now += DENIED_TTL
    world.listed["ann-1"] = down()
    for _ in range(2):
        with pytest.raises(CatalogUnavailable):
            await world.names(ANN)


async def test_a_thousand_refusals_do_not_grow_the_failure(world: World) -> None:
    """An exception that is raised again and again keeps a frame of each time."""
    world.listed["ann-1"] = refusal(unauthorized=False)
    for _ in range(1000):
        with pytest.raises(Forbidden) as caught:
            await world.names(ANN)
    assert len(caught.traceback) < 10


async def test_a_listing_refused_to_the_gateways_own_credential_is_nothing_a_caller_could_mend(world: World) -> None:
    discovery = world.made(callers_own=False)
    world.listed["ann-1"] = refusal(unauthorized=True)
    with capture_logs() as lines, pytest.raises(CatalogUnavailable):
        await discovery.catalog(ANN)
    assert [line["log_level"] for line in lines] == ["warning", "error"]
    world.listed["bob-1"] = refusal(unauthorized=False)
    with pytest.raises(Forbidden):
        await discovery.catalog(BOB)


async def test_a_refused_token_that_was_accepted_here_is_an_error_in_the_log(world: World) -> None:
    world.listed["ann-1"] = refusal(unauthorized=True)
    with capture_logs() as lines, pytest.raises(Unauthorized):
        await world.names(ANN)
    (error,) = [line for line in lines if line["log_level"] == "error"]
    assert error["event"].startswith("the conditions of same_resource do not hold")
    assert "ann-1" not in repr(lines)


# --- failing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [down(), AuthUnavailable("No answer."), RuntimeError("unforeseen")])
async def test_where_refreshing_fails_each_caller_goes_on_with_its_own(world: World, failure: Exception) -> None:
    world.listed["bob-1"] = ("c",)
    for one in (ANN, BOB):
        await world.names(one)
    world.now += TTL
    world.listed |= {"ann-1": failure, "bob-1": failure, "cy-1": failure}
    for _ in range(2):
        assert await world.names(ANN) == ("a", "b")
        assert await world.names(BOB) == ("c",)
        await world.settled()
    with pytest.raises(CatalogUnavailable):
        await world.names(caller("cy-1", "cy"))
    world.now += MAX_STALE
    with pytest.raises(CatalogUnavailable):
        await world.names(ANN)


async def test_a_callers_empty_first_listing_is_believed_and_a_sudden_one_is_not(world: World) -> None:
    world.listed["bob-1"] = ()
    assert await world.names(BOB) == ()
    await world.names(ANN)
    world.listed["ann-1"] = ()
    world.now += TTL
    await world.names(ANN)
    await world.settled()
    assert await world.names(ANN) == ("a", "b")
    for _ in range(5):  # asked again at each quarter of the time
        world.now += CONFIRMED_AFTER / 4
        await world.names(ANN)
        await world.settled()
    assert await world.names(ANN) == ()


# --- streams ---------------------------------------------------------------------------------------------------


async def test_an_open_stream_keeps_its_callers_view_fresh_with_its_token(world: World) -> None:
    await world.names(ANN)
    world.discovery.refresh_if_stale(ANN_LATER)
    await world.settled()
    assert world.asked == ["ann-1"], "fresh"
    world.now += TTL
    world.discovery.refresh_if_stale(ANN_LATER)
    world.discovery.refresh_if_stale(ANN_LATER)
    await world.settled()
    assert world.asked == ["ann-1", "ann-2"]


async def test_a_stream_with_a_refused_token_does_not_ask_at_every_beat(world: World) -> None:
    await world.names(ANN)
    world.now += TTL
    world.listed["ann-1"] = refusal(unauthorized=True)
    for _ in range(5):
        world.discovery.refresh_if_stale(ANN)
        await world.settled()
    assert world.asked == ["ann-1", "ann-1"]


async def test_a_stream_with_a_refused_token_costs_a_good_one_one_listing(world: World) -> None:
    await world.names(ANN_LATER)
    world.now += TTL
    world.listed["ann-1"] = refusal(unauthorized=True)
    world.discovery.refresh_if_stale(ANN)
    await world.settled()
    for _ in range(3):
        assert await world.names(ANN_LATER) == ("a", "b")
        world.discovery.refresh_if_stale(ANN)
        await world.settled()
    assert world.asked == ["ann-2", "ann-1", "ann-2"]
