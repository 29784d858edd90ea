"""Tool search: two tools are listed, and every call is decided on as the call of the tool that it names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.config.source import load_settings
from tests.each import each
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.protocol.conftest import Connect, Start
from tests.protocol.talk import CAPABILITIES, LEGACY, MODERN, Client, request
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")

ON = "catalog.search=true"
AGE = Rpc("age", {}, {"type": "integer"}, "How old something is", lambda: 3)
OURS = Rpc("call_tool", {"name": {}}, {}, "A method of the backend's that has one of our names", lambda name: name)


async def searched(gateway: Front, surface: Surface, query: str, **arguments: Any) -> list[str]:
    called = await gateway.call(surface, "search_tools", {"query": query, **arguments})
    return [tool["name"] for tool in called.value["tools"]]


async def through(gateway: Front, surface: Surface, name: str, arguments: Any = None) -> Any:
    inner = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return await gateway.call(surface, "call_tool", inner)


@each("surface", SURFACES)
async def test_two_tools_are_listed_that_find_and_call_the_others(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON) as gateway:
        assert set(await gateway.tools(surface)) == {"search_tools", "call_tool"}
        assert (await searched(gateway, surface, "add numbers"))[0] == "add"
        assert (await through(gateway, surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}
        assert backend.calls("add") == 1


@each("surface", SURFACES)
async def test_a_tool_that_is_found_has_the_annotations_that_a_list_has(surface: Surface) -> None:
    marked = "catalog.tools.add.annotations={destructiveHint: true, readOnlyHint: false}"
    async with (
        ScriptedBackend() as backend,
        front(backend.url, marked) as gateway,
        front(backend.url, ON, marked) as it,
    ):
        (found, *_) = (await it.call(surface, "search_tools", {"query": "add numbers"})).value["tools"]
        assert found["annotations"]["destructiveHint"] is True
        assert found["annotations"] == (await gateway.tools(surface))["add"]["annotations"]


@each("surface", SURFACES)
async def test_arguments_that_are_null_are_none(surface: Surface) -> None:
    async with ScriptedBackend((AGE,)) as backend, front(backend.url, ON) as gateway:
        for name, arguments in (("age", None), ("call_tool", {"name": "age", "arguments": None})):
            called = await gateway.call(surface, name, arguments)
            assert called.value == 3


@each("surface", SURFACES)
async def test_direct_calls_by_name_go_on(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON) as gateway:
        assert (await gateway.call(surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}


@each("surface", SURFACES)
async def test_without_the_knob_there_are_no_such_tools(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        assert "add" in await gateway.tools(surface)
        if surface == "rest":
            assert (await gateway.call(surface, "search_tools", {"query": "x"})).code == "tool_not_found"


SMALL, LARGE = "catalog.search={above: 20000}", "catalog.search={above: 10}"
OWN = Rpc("search_tools", {"query": {}}, {}, "A method of the backend's with the name of ours", lambda query: query)


@each("surface", SURFACES)
async def test_a_list_is_replaced_where_it_is_larger_than_the_knob_says(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, LARGE) as gateway:
        assert set(await gateway.tools(surface)) == {"search_tools", "call_tool"}
        assert (await searched(gateway, surface, "add numbers"))[0] == "add"
        assert (await through(gateway, surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}


@each("surface", SURFACES)
async def test_while_a_list_is_small_the_names_of_ours_are_the_services(surface: Surface) -> None:
    async with ScriptedBackend((*METHODS, OWN)) as backend, front(backend.url, SMALL) as gateway:
        assert {"add", "search_tools"} <= set(await gateway.tools(surface))
        assert (await gateway.call(surface, "search_tools", {"query": "x"})).value == "x"
        if surface == "rest":
            assert (await gateway.call(surface, "call_tool", ADDED)).code == "tool_not_found"


@each("surface", SURFACES)
async def test_a_misspelled_name_is_told_the_nearest_one(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON) as gateway:
        assert (await through(gateway, surface, "Add", {})).message.endswith(". Did you mean add?")


@each("surface", SURFACES)
async def test_the_nearest_name_is_in_the_style_in_which_search_shows_it(surface: Surface) -> None:
    async with ScriptedBackend([Rpc("sums.total")]) as backend, front(backend.url, ON) as gateway:
        (name,) = await searched(gateway, surface, "total")
        for misspelled in ("sums.totals", "sums_totals"):
            told = (await through(gateway, surface, misspelled, {})).message
            assert told.endswith(f". Did you mean {name}?")


@each("surface", SURFACES)
async def test_the_result_is_shown_as_the_found_tools_own(surface: Surface) -> None:
    async with ScriptedBackend((*METHODS, AGE)) as backend, front(backend.url, ON) as gateway:
        direct = await gateway.call(surface, "age", {})
        inner = await through(gateway, surface, "age")
        assert inner.result == direct.result
        assert inner.value == 3


async def test_the_request_log_and_progress_name_the_found_tool(connect: Connect) -> None:
    client = await connect(ON)
    asking = {"name": "call_tool", "arguments": ADDED, "_meta": {"progressToken": "p"}}
    with capture_logs() as lines:
        told = [(await client.speak(era, "tools/call", asking)).messages for era in (MODERN, LEGACY[0])]
        await client.post("/mcp/tools/invoke", {"name": "call_tool", "arguments": ADDED})
        await client.post("/mcp/tools/call_tool", request("call_tool", ADDED))
        await client.post("/jsonrpc", request("call_tool", ADDED))
    assert [messages[0]["params"]["message"] for messages in told] == ["Waiting for add"] * 2
    assert [line["tool"] for line in lines if line["event"] == "request"] == ["add"] * 5


@each("surface", SURFACES)
async def test_the_found_tools_schema_decides_on_its_arguments(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON) as gateway:
        for arguments in ({"a": 2}, {"a": "x", "b": 3}, None):
            called = await through(gateway, surface, "add", arguments)
            assert called.message.startswith("Invalid arguments")
        assert backend.calls("add") == 0


@each("surface", SURFACES)
async def test_a_name_that_is_none_is_an_error_that_a_model_can_mend(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON) as gateway:
        called = await through(gateway, surface, "subtract", {})
        assert "There is no tool subtract; search_tools finds" in called.message
        for wrong in ({}, {"name": ""}, {"name": "add", "arguments": []}, {"name": "add", "more": 1}):
            assert "Invalid arguments" in (await gateway.call(surface, "call_tool", wrong)).message
        for wrong in ({}, {"query": ""}, {"query": "x", "limit": 0}, {"query": "x", "limit": 21}):
            assert "Invalid arguments" in (await gateway.call(surface, "search_tools", wrong)).message


async def test_the_arguments_of_the_found_tool_may_be_a_text_that_spells_them(backend: ScriptedBackend) -> None:
    """Models write them so. What the text holds, the found tool's own rules decide, and JSON-RPC passes what came."""
    texts = ('{"a": 2, "b": 3}', '{"a": "2", "b": 3}', "[2, 3]", "{")
    written = [{"name": "add", "arguments": text} for text in texts]
    async with front(backend.url, ON) as gateway:
        for surface in ("modern", "legacy", "rest"):
            good, *others = [await gateway.call(surface, "call_tool", one) for one in written]
            assert good.value == {"sum": 5}
            assert all(called.message.startswith("Invalid arguments") for called in others)
        sent = await gateway.post(f"{gateway.base}/jsonrpc", request("call_tool", written[0]))
    assert sent.message.startswith("Invalid arguments")
    assert backend.calls("add") == 3


CONFIRM = "catalog.tools.add.confirm=true"
ADDED = {"name": "add", "arguments": {"a": 2, "b": 3}}


@each("surface", ["legacy", "rest"])
async def test_a_tool_that_needs_consent_does_not_run_where_nobody_can_be_asked(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON, CONFIRM) as gateway:
        assert "consent" in (await gateway.call(surface, "call_tool", ADDED)).message
        assert backend.calls("add") == 0


async def test_a_person_is_asked_about_the_found_tool_and_what_it_would_get(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(ON, CONFIRM)
    params = {"name": "call_tool", "arguments": ADDED}
    able = {"_meta": {CAPABILITIES: {"elicitation": {}}}}
    assert (await client.modern("tools/call", {**params, "_meta": {CAPABILITIES: {}}})).fault == (400, -32021)
    asked = (await client.modern("tools/call", {**params, **able})).result
    message = asked["inputRequests"]["confirm"]["params"]["message"]
    assert message.startswith("Run add?\n")
    assert "\na: 2\nb: 3" in message
    assert backend.requests == []
    agreed = {"inputResponses": {"confirm": {"action": "accept"}}, "requestState": asked["requestState"]}
    answer = (await client.modern("tools/call", {**params, **able, **agreed})).result
    assert answer["structuredContent"] == {"sum": 5}
    assert backend.calls("add") == 1


@each("surface", SURFACES)
async def test_hidden_methods_are_neither_found_nor_called(surface: Surface) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON, 'catalog.exclude=["add"]') as gateway:
        assert await searched(gateway, surface, "add two numbers") == []
        assert "There is no tool add" in (await through(gateway, surface, "add", {"a": 2, "b": 3})).message
        assert backend.calls("add") == 0


@each("surface", SURFACES)
async def test_a_method_with_one_of_our_names_is_reached_through_ours(surface: Surface) -> None:
    async with ScriptedBackend((OURS,)) as backend, front(backend.url, ON) as gateway:
        assert (await through(gateway, surface, "call_tool", {"name": "x"})).value == "x"
        assert backend.calls("call_tool") == 1


@each("limit", [1, 2, 2.0])
async def test_the_limit_bounds_the_matches(limit: float) -> None:
    async with ScriptedBackend() as backend, front(backend.url, ON) as gateway:
        called = await gateway.call("modern", "search_tools", {"query": "add give fail take", "limit": limit})
        assert len(called.value["tools"]) == limit
        assert called.value["matches"] == 4


async def test_the_tools_have_routes_of_their_own(connect: Connect) -> None:
    client = await connect(ON)
    answer = await client.post("/mcp/tools/search_tools", request("search_tools", {"query": "add"}))
    assert answer.json["result"]["tools"][0]["name"] == "add"
    answer = await client.post("/mcp/tools/call_tool", request("call_tool", ["add", {"a": 1, "b": 1}]))
    assert answer.json["result"] == {"sum": 2}
    answer = await client.post("/mcp/tools/add", request("add", [2, 3]))
    assert answer.json["result"] == {"sum": 5}


@each("knob", [ON, LARGE])
async def test_a_reload_swaps_the_lists_and_listeners_hear_of_it(
    start: Start, session: ClientSession, backend: ScriptedBackend, knob: str
) -> None:
    gateway = await start()
    client = Client(session, gateway.port)
    async with client.listen({"toolsListChanged": True}) as stream:
        await stream.message()
        ground = [f"backend.url={backend.url}", "backend.listing.dialect=openrpc", "server.port=0"]
        await gateway.reload(load_settings(None, [*ground, "server.admin_port=0", "auth.mode=off", knob], environ={}))
        async with asyncio.timeout(PATIENCE):
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
        listed = await client.get("/mcp/tools/list")
        assert [tool["name"] for tool in listed.json["tools"]] == ["call_tool", "search_tools"]
