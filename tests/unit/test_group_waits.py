"""How long a group waits for its services, in virtual time: one that hangs delays no other one's tools."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.auth.access import Access
from gateway.errors import CatalogUnavailable, Forbidden
from gateway.model import Binding, Caller, Catalog, Listing, NameStyle, Principal, Structure, Tool, View
from gateway.service.members import PATIENCE, GroupCatalogs, Member
from gateway.settings.auth import Auth
from tests.discovering import ANYBODY, MAX_STALE, World, no_listing
from tests.virtual_time import virtually

LONG = 60.0


def group_of(**worlds: World) -> GroupCatalogs:
    """A group of services that are nothing but their discoveries."""
    access = Access(Auth(mode="off"), per_caller=False)
    members = []
    for name, world in worlds.items():
        settings = SimpleNamespace(auth=Auth(mode="off"), backend=SimpleNamespace(told_claims=()))
        service: Any = SimpleNamespace(name=name, discovery=world.discovery, settings=settings)
        members.append(Member(service, access, Any, [one for one in worlds if one != name]))  # type: ignore[arg-type]
    return GroupCatalogs(members, lambda _: None)


class Plain:
    """Make tools without the threads in which schemas are compiled: virtual time would run away from them."""

    async def build_catalog(self, listing: Listing, _: Any) -> Catalog:
        schema, by_name = {"type": "object"}, Structure.BY_NAME
        tools = (
            Tool(one.name, one.name, "", schema, Binding(one.name, by_name), names={NameStyle.MCP: one.name})
            for one in listing.methods
        )
        return Catalog(tuple(tools), "static")


def listing() -> World:
    world = World(patience=LONG)
    world.builder = Plain()
    return world


def hanging() -> World:
    world = listing()
    world.backend.gate.clear()
    return world


def now() -> float:
    return asyncio.get_running_loop().time()


async def released(*worlds: World) -> None:
    for world in worlds:
        world.backend.gate.set()
    await worlds[0].settled()


@virtually
async def test_a_list_waits_a_short_time_for_those_that_hang_while_another_one_lists() -> None:
    """Also the first list of all, when no service had its listing before."""
    hang, good = [hanging() for _ in range(3)], listing()
    group = group_of(a=hang[0], crm=good, b=hang[1], c=hang[2])
    catalog = await group.catalog(ANYBODY)
    assert (catalog.names, catalog.service.missing) == (("crm.a", "crm.b"), ("a", "b", "c"))
    assert now() == PATIENCE
    await released(*hang)
    assert (await group.catalog(ANYBODY)).service.missing == ()


@virtually
async def test_services_whose_listing_got_too_old_are_not_waited_for() -> None:
    """Who lists in the background found nothing all the time."""
    worlds = [listing() for _ in range(4)]
    group = group_of(a=worlds[0], b=worlds[1], c=worlds[2], d=worlds[3])
    assert (await group.catalog(ANYBODY)).service.missing == ()
    for world in worlds[1:]:
        world.now += 2 * MAX_STALE
        world.backend.gate.clear()
    began = now()
    assert (await group.catalog(ANYBODY)).service.missing == ("b", "c", "d")
    assert now() == began
    await released(*worlds)


@virtually
async def test_while_no_service_has_a_listing_all_are_waited_for() -> None:
    hang = hanging()
    asyncio.get_running_loop().call_later(2 * PATIENCE, hang.backend.gate.set)
    failed = listing()
    failed.backend.failure = no_listing()
    group = group_of(a=failed, b=hang)
    assert (await group.catalog(ANYBODY)).names == ("b.a", "b.b")
    assert now() == 2 * PATIENCE


@virtually
async def test_where_none_comes_the_first_failure_is_told() -> None:
    worlds = listing(), listing()
    for world in worlds:
        world.backend.failure = no_listing()
    with pytest.raises(CatalogUnavailable):
        await group_of(a=worlds[0], b=worlds[1]).catalog(ANYBODY)


@virtually
async def test_a_call_is_delayed_by_no_other_service_whose_name_its_tool_begins_with() -> None:
    hang, books = hanging(), listing()
    group = group_of(crm=hang, crm_books=books)
    found = await group.find(ANYBODY, "crm_books.a")
    assert found is not None
    (llm,) = {*found.tool.names.values()} - {found.tool.name}
    assert (await group.find(ANYBODY, llm)) == found
    assert now() == 0
    await released(hang)


@virtually
async def test_a_call_is_refused_by_no_other_service_whose_name_its_tool_begins_with() -> None:
    refusing, books = listing(), listing()
    refusing.backend.failure = Forbidden("Not to you")
    group = group_of(crm=refusing, crm_books=books)
    found = await group.find(ANYBODY, "crm_books.a")
    assert found is not None
    (llm,) = {*found.tool.names.values()} - {found.tool.name}
    assert (await group.find(ANYBODY, llm)) == found
    with pytest.raises(Forbidden):
        await group.find(ANYBODY, "crm_a")


@virtually
async def test_a_stream_is_notified_while_its_own_token_is_good() -> None:
    """The list may have been asked for with an older one."""
    world, told = listing(), list[View]()
    group = group_of(crm=world)
    group.after_publish = told.append
    view = View("issuer", "ann")
    old, new = (Caller("", view, Principal("issuer", "ann", "", frozenset(), end, None)) for end in (1.0, 1e12))
    await group.catalog(old)
    group.refresh_if_stale(new)
    world.backend.methods = ("a", "c")
    await world.discovery.refresh()
    await group.check([view])
    assert told == [view]


async def test_what_is_wrong_with_a_service_cannot_pass_for_what_is_wrong_with_another() -> None:
    group = group_of(crm=listing(), shop=listing())
    for member, cause in zip(group.members, ('down"; shop: "gone', ""), strict=True):
        member.discovery.problem.set(cause)
    assert group.problem.cause == r'crm: "down\"; shop: \"gone"'
