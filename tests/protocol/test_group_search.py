"""Tool search in a group: on where the list of all services is long, and told of by what there is to find."""

from __future__ import annotations

import json

import pytest

from tests.authorization.stand import tools_in
from tests.fault.methods import ADD, ECHO, Rpc
from tests.protocol.grouped import grouped
from tests.protocol.official import MODERN
from tests.protocol.test_groups import TWO_AND_THREE, fault_of, structured

pytestmark = pytest.mark.usefixtures("both_servers")

MANY = [Rpc(f"{area}.task{number:03}") for area in ("books", "orders") for number in range(101)]


async def test_many_tools_are_offered_through_search_which_says_what_there_is() -> None:
    async with grouped("groups.all.catalog.search={above: 1000}", services={"crm": MANY, "shop": [ADD, ECHO]}) as it:
        tools = tools_in(await it.client().list(MODERN))
        assert [*tools] == ["call_tool", "search_tools"]
        description = tools["search_tools"]["description"]
        assert "the tools of crm (202 tools), shop (2 tools) that fit a task" in description
        assert "crm.books (101), crm.orders (101)" in description
        query = {"name": "search_tools", "arguments": {"query": "add two numbers"}}
        found = structured(await it.client().modern("tools/call", query))
        assert found["tools"][0]["name"] == "shop_add"
        call = {"name": "call_tool", "arguments": {"name": "shop_add", "arguments": TWO_AND_THREE}}
        assert structured(await it.client().modern("tools/call", call)) == {"sum": 5}
        assert structured(await it.client().modern("tools/call", {"name": "shop_add", "arguments": TWO_AND_THREE}))
        written = {"name": "shop_add", "arguments": json.dumps(TWO_AND_THREE)}
        assert structured(await it.client().modern("tools/call", {"name": "call_tool", "arguments": written}))
        unknown = {"name": "call_tool", "arguments": {"name": "shop_ad"}}
        assert "There is no tool shop_ad" in await fault_of(it.client(), "call_tool", unknown["arguments"])
        assert "Invalid arguments" in await fault_of(it.client(), "call_tool", {})


async def test_search_is_as_the_group_says() -> None:
    async with grouped("groups.all.catalog.search=true") as it:
        assert await it.names() == ["call_tool", "search_tools"]
    async with grouped("groups.all.catalog.search=false", services={"crm": MANY}) as it:
        assert len(await it.names()) == len(MANY)
        assert (await it.client().modern("tools/call", {"name": "search_tools"})).fault == (200, -32602)


async def test_where_all_tools_are_listed_none_is_called_through_search() -> None:
    call = {"name": "call_tool", "arguments": {"name": "crm_add", "arguments": TWO_AND_THREE}}
    async with grouped() as it:
        assert (await it.client().modern("tools/call", call)).fault == (200, -32602)
        assert it.backends["crm"].calls("add") == 0


async def test_search_of_a_service_does_not_hide_its_tools_from_the_group() -> None:
    async with grouped("services.crm.catalog.search=true") as it:
        assert await it.names() == ["crm_add", "shop_echo"]
        assert structured(await it.client().modern("tools/call", {"name": "crm_add", "arguments": TWO_AND_THREE}))
        assert (await it.client().modern("tools/call", {"name": "crm.search_tools"})).fault == (200, -32602)
