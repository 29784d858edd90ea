"""Both names of a tool: catalog.names says which models are shown, REST shows MCP's, ``?names=`` chooses on either, and
calls may use any of them everywhere.

2026-07-28 server/tools "Tool Names"; SEP-2243: Mcp-Name is the body's name, whichever of the names that is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession

from tests.each import each
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect, Start, settings
from tests.protocol.talk import LEGACY, MODERN, Answer, Client, legacy_headers, modern_headers, modern_request, request

ERAS = (MODERN, *LEGACY)
SURFACES = (*ERAS, "rest")
LONG = "reports.of.the.year." * 4
COLLIDING = f"a_b_{hashlib.sha256(b'a/b').hexdigest()[:8]}"
MCP_NAMES = sorted(["node.list", "a_b", COLLIDING, LONG.removesuffix("_")])
CUT = f"{LONG.replace('.', '_')[:55]}_{hashlib.sha256(LONG.encode()).hexdigest()[:8]}"
BY_MCP_NAME = {"node.list": "node_list", "a_b": "a_b", COLLIDING: COLLIDING, LONG: CUT}
LLM_NAMES = [BY_MCP_NAME[name] for name in MCP_NAMES]
ON = "catalog.search=true"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [
        Rpc(name, run=lambda name=name: f"this is {name}")  # type: ignore[misc]
        for name in ("node.list", "a_b", "a/b", LONG)
    ]


async def ask(client: Client, surface: str, query: str, method: str, params: dict[str, Any]) -> Answer:
    """A request of MCP to the endpoint with a query."""
    if surface == MODERN:
        headers = modern_headers(method, params.get("name"))
        return await client.post(f"/mcp{query}", modern_request(method, params), headers)
    return await client.post(f"/mcp{query}", request(method, params), legacy_headers(surface))


async def page(client: Client, surface: str, query: str = "", cursor: str | None = None) -> Any:
    if surface == "rest":
        following = "" if cursor is None else f"{'&' if query else '?'}cursor={cursor}"
        answer = await client.get(f"/mcp/tools/list{query}{following}")
        assert answer.status == 200
        return answer.json
    return (await ask(client, surface, query, "tools/list", {} if cursor is None else {"cursor": cursor})).result


async def names_of(client: Client, surface: str, query: str = "") -> list[str]:
    """All pages of them."""
    names: list[str] = []
    cursor: str | None = None
    while True:
        content = await page(client, surface, query, cursor)
        names += [tool["name"] for tool in content["tools"]]
        cursor = content.get("nextCursor")
        if cursor is None:
            return names


@each("surface", SURFACES)
async def test_models_are_shown_names_that_llm_apis_take_and_rest_shows_mcps(
    connect_once: Connect, surface: str
) -> None:
    client = await connect_once()
    assert await names_of(client, surface) == (MCP_NAMES if surface == "rest" else LLM_NAMES)


@each("configured", ["mcp", "llm"])
@each("surface", SURFACES)
async def test_the_operator_chooses_for_models_alone(connect_once: Connect, surface: str, configured: str) -> None:
    client = await connect_once(f"catalog.names={configured}")
    assert await names_of(client, surface) == (LLM_NAMES if configured == "llm" and surface != "rest" else MCP_NAMES)


@each("configured", ["mcp", "llm"])
@each("surface", SURFACES)
async def test_a_client_chooses_the_names_it_is_shown(connect_once: Connect, surface: str, configured: str) -> None:
    client = await connect_once(f"catalog.names={configured}")
    before = await names_of(client, surface)
    assert await names_of(client, surface, "?names=llm") == LLM_NAMES
    assert await names_of(client, surface, "?names=mcp") == MCP_NAMES
    assert await names_of(client, surface) == before, "one client's choice is not the next one's"


@each("surface", SURFACES)
async def test_no_tool_is_lost_between_pages_under_chosen_names(connect_once: Connect, surface: str) -> None:
    client = await connect_once("catalog.page_size=1")
    assert await names_of(client, surface, "?names=llm") == LLM_NAMES


@each("surface", SURFACES)
async def test_a_cursor_goes_on_under_the_other_names(connect_once: Connect, surface: str) -> None:
    client = await connect_once("catalog.page_size=2")
    first = await page(client, surface)
    second = await page(client, surface, "?names=llm", first["nextCursor"])
    assert [tool["name"] for tool in second["tools"]] == LLM_NAMES[2:]


CALLS = [
    ("node.list", "node.list"),
    ("node_list", "node.list"),
    ("a_b", "a_b"),
    ("a/b", "a/b"),
    (COLLIDING, "a/b"),
    (CUT, LONG),
    (LONG, LONG),
]


async def call(client: Client, surface: str, query: str, name: str) -> Any:
    """What a call without arguments answers."""
    if surface == "rest":
        answer = await client.post(f"/mcp/tools/invoke{query}", {"name": name})
        assert answer.status == 200
        return answer.json["result"]
    if surface in ("tool", "jsonrpc"):
        path = "/jsonrpc" if surface == "jsonrpc" else f"/mcp/tools/{quote(name, safe='')}"
        return (await client.post(f"{path}{query}", request(name))).result
    result = (await ask(client, surface, query, "tools/call", {"name": name, "arguments": {}})).result
    assert result["isError"] is False
    return result["content"][0]["text"]


@each("configured", ["mcp", "llm"])
@each(("name", "method"), CALLS)
@each("query", ["", "?names=llm", "?names=mcp"])
@each("surface", [MODERN, LEGACY[0], "rest", "tool", "jsonrpc"])
async def test_a_call_may_use_any_name_whatever_is_shown(
    connect_once: Connect, surface: str, query: str, name: str, method: str, configured: str
) -> None:
    client = await connect_once(f"catalog.names={configured}")
    assert await call(client, surface, query, name) == f"this is {method}"


SEARCHES = [
    ("mcp", "", "node.list"),
    ("llm", "", "node_list"),
    ("llm", "?names=mcp", "node.list"),
    ("mcp", "?names=llm", "node_list"),
]


@each(("configured", "query", "shown"), SEARCHES)
@each("surface", [MODERN, LEGACY[0], "rest", "tool", "jsonrpc"])
async def test_tool_search_shows_the_names_that_the_operator_or_the_client_chose(
    connect_once: Connect, surface: str, configured: str, query: str, shown: str
) -> None:
    client = await connect_once(ON, f"catalog.names={configured}")
    wanted = {"query": "node list"}
    if surface == "rest":
        answer = (await client.post(f"/mcp/tools/invoke{query}", {"name": "search_tools", "arguments": wanted})).json
    elif surface in ("tool", "jsonrpc"):
        path = "/jsonrpc" if surface == "jsonrpc" else "/mcp/tools/search_tools"
        answer = (await client.post(f"{path}{query}", request("search_tools", wanted))).json
    else:
        asked = {"name": "search_tools", "arguments": wanted}
        answer = {"result": (await ask(client, surface, query, "tools/call", asked)).result["structuredContent"]}
    assert answer["result"]["tools"][0]["name"] == shown


async def test_what_is_found_may_be_called_by_any_name(connect: Connect) -> None:
    client = await connect(ON)
    for name, method in CALLS:
        called = await client.modern("tools/call", {"name": "call_tool", "arguments": {"name": name}})
        assert called.result["content"][0]["text"] == f"this is {method}"


async def test_the_name_in_the_header_must_be_the_one_in_the_body(client: Client) -> None:
    """Another name of the same tool is another name: an intermediary routed by what it read."""
    for body, header in product(("node.list", "node_list"), repeat=2):
        sent = modern_request("tools/call", {"name": body, "arguments": {}})
        for query in ("", "?names=llm", "?names=mcp"):
            answer = await client.post(f"/mcp{query}", sent, modern_headers("tools/call", header))
            if body == header:
                assert answer.result["isError"] is False
            else:
                assert answer.fault == (400, -32020)


@each("query", ["?names=openai", "?names=", "?names=LLM", "?names=llm&names=mcp", "?names=llm%00"])
@each("surface", SURFACES)
async def test_other_names_are_refused_clearly(client: Client, surface: str, query: str) -> None:
    said = 'The parameter "names" must be mcp or llm, and be given once'
    if surface == "rest":
        for path in (f"/mcp/tools/list{query}", f"/mcp/tools/describe{query}&name=a_b"):
            answer = await client.get(path)
            assert (answer.status, answer.error) == (400, {"code": "invalid_params", "message": said})
        answer = await client.post(f"/mcp/tools/invoke{query}", {"name": "a_b"})
        assert (answer.status, answer.error) == (400, {"code": "invalid_params", "message": said})
        return
    answer = await ask(client, surface, query, "tools/list", {})
    assert (answer.status, answer.error) == (400, {"code": -32602, "message": said})


async def test_rest_describes_a_tool_under_the_chosen_name_with_a_path_that_works(client: Client) -> None:
    for query, name in (("", "node.list"), ("&names=llm", "node_list"), ("&names=mcp", "node.list")):
        for asked in ("node.list", "node_list"):
            tool = (await client.get(f"/mcp/tools/describe?name={asked}{query}")).json["tool"]
            assert (tool["name"], tool["title"], tool["method"]) == (name, f"{name}", "node.list")
            assert tool["endpoint"] == f"/mcp/tools/{name}"
            for spoken in ("node.list", "node_list"):
                answer = await client.post(tool["endpoint"], request(spoken))
                assert answer.result == "this is node.list"


async def test_a_change_of_the_names_reaches_clients_at_once(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start()
    client = Client(session, gateway.port)
    assert await names_of(client, MODERN) == LLM_NAMES
    async with client.listen({"toolsListChanged": True}) as stream:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        await gateway.reload(settings(backend.url, "catalog.names=mcp"))
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
    assert await names_of(client, MODERN) == MCP_NAMES
    assert await names_of(client, "rest") == MCP_NAMES
