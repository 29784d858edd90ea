"""2026-07-28: server/discover, tools/list and tools/call, and what every result carries."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from gateway import __version__
from tests.each import each
from tests.fault.behaviours import Body, error, result
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import NAMES
from tests.protocol.conftest import Connect
from tests.protocol.talk import MODERN, SERVER, Client, modern_headers, modern_request

pytestmark = pytest.mark.usefixtures("both_servers")


async def test_discover_says_what_is_served_and_who_serves_it(client: Client) -> None:
    """server/discover: versions of this era alone; no capability but tools, whose changes are told."""
    found = (await client.modern("server/discover")).result
    assert found["resultType"] == "complete"
    assert found["supportedVersions"] == [MODERN]
    assert found["capabilities"] == {"tools": {"listChanged": True}}
    assert found["_meta"][SERVER]["name"] == "Scripted backend"
    assert "serverInfo" not in found


async def test_discover_does_not_depend_on_the_backend(connect: Connect, backend: ScriptedBackend) -> None:
    """An error here would send clients back to the legacy era for good."""
    client = await connect(url=backend.refused_url)
    assert (await client.modern("server/discover")).result["supportedVersions"] == [MODERN]
    listed = await client.modern("tools/list")
    assert listed.fault == (503, 503)
    assert int(listed.headers["Retry-After"]) >= 1


async def test_discover_asks_the_backend_nothing(client: Client, backend: ScriptedBackend) -> None:
    await client.modern("server/discover")
    assert backend.requests == []


@each("method", ["server/discover", "tools/list"])
async def test_what_may_be_kept_says_for_how_long_and_by_whom(client: Client, method: str) -> None:
    """server/utilities/caching: ttlMs is a whole number, and a listing that is everybody's is public."""
    found = (await client.modern(method)).result
    assert type(found["ttlMs"]) is int
    assert found["ttlMs"] > 0
    assert found["cacheScope"] == "public"


async def test_a_listing_is_not_kept_longer_than_it_is_fresh_here(connect: Connect) -> None:
    """server/utilities/caching: ttlMs is the rest of catalog.ttl, and only ever shrinks until the next refresh."""
    client = await connect("catalog.ttl=1h")
    first = (await client.modern("tools/list")).result["ttlMs"]
    second = (await client.modern("tools/list")).result["ttlMs"]
    assert 3_500_000 < second <= first < 3_600_000


async def test_tools_list_has_every_method_in_order_and_the_same_order_each_time(client: Client) -> None:
    """server/tools "Listing tools": the order SHOULD be deterministic."""
    lists = [(await client.modern("tools/list")).result["tools"] for _ in range(3)]
    assert [tool["name"] for tool in lists[0]] == NAMES
    assert lists[0] == lists[1] == lists[2]


async def test_a_listed_tool_shows_its_schemas_whole(client: Client) -> None:
    """server/tools "Tool": any output schema is allowed, and one that says nothing is left out."""
    tools = {tool["name"]: tool for tool in (await client.modern("tools/list")).result["tools"]}
    assert tools["add"] == {
        "name": "add",
        "description": "Add two numbers",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
        "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
    }
    assert tools["numbers"]["inputSchema"] == {"type": "object", "properties": {}}
    assert tools["numbers"]["outputSchema"] == {"type": "array", "items": {"type": "integer"}}
    assert "outputSchema" not in tools["echo"]


async def test_the_list_is_complete_when_there_is_no_next_cursor(client: Client) -> None:
    found = (await client.modern("tools/list")).result
    assert found["resultType"] == "complete"
    assert "nextCursor" not in found
    assert found["_meta"][SERVER]["name"] == "Scripted backend"


async def test_a_call_gives_the_value_as_structure_and_as_text(client: Client, backend: ScriptedBackend) -> None:
    """server/tools "Structured content": the serialized JSON is a text block as well."""
    found = (await client.modern("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})).result
    assert found.pop("_meta")[SERVER]["version"] == "1.0.0"
    assert found == {
        "resultType": "complete",
        "content": [{"type": "text", "text": '{"sum":5}'}],
        "structuredContent": {"sum": 5},
        "isError": False,
    }
    assert [call.params for call in backend.requests] == [{"a": 2, "b": 3}]


@each("value", [None, True, 0, 1.5, [], [1, [2]], {}, {"a": None}])
async def test_structured_content_may_be_any_json_value(client: Client, value: Any) -> None:
    """server/tools "Structured content": since 2026-07-28 not objects alone."""
    found = (await client.modern("tools/call", {"name": "echo", "arguments": {"value": value}})).result
    assert found["structuredContent"] == value
    assert json.loads(found["content"][0]["text"]) == value


async def test_a_plain_string_is_plain_text(client: Client) -> None:
    """A string without a schema is no structure; quotes around it would be in a model's way."""
    found = (await client.modern("tools/call", {"name": "echo", "arguments": {"value": 'say "hi"\n'}})).result
    assert found["content"] == [{"type": "text", "text": 'say "hi"\n'}]
    assert "structuredContent" not in found


async def test_a_tool_with_an_output_schema_always_gives_structured_content(client: Client) -> None:
    """server/tools "Output schema": MUST conform, so it has to be there, strings included."""
    found = (await client.modern("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})).result
    assert found["structuredContent"] == "Hello, Ada"
    assert found["content"][0]["text"] == "Hello, Ada"


async def test_a_result_that_breaks_its_own_schema_is_an_error(client: Client, backend: ScriptedBackend) -> None:
    """server/tools "Output schema": clients check it and would throw."""
    backend.on("add", result({"sum": "five"}))
    found = (await client.modern("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})).result
    assert found["isError"] is True
    assert "structuredContent" not in found


async def test_a_method_without_a_result_is_sent_as_a_notification(client: Client, backend: ScriptedBackend) -> None:
    found = (await client.modern("tools/call", {"name": "void"})).result
    assert found["isError"] is False
    assert "structuredContent" not in found
    assert [call.is_notification for call in backend.requests] == [True]


@each("code", [-32000, -32001, -32050, -32601, 5])
async def test_a_backend_error_is_a_tool_error_without_its_code(
    client: Client, backend: ScriptedBackend, code: int
) -> None:
    """server/tools "Error handling"; basic/index reserves the codes that services use."""
    backend.on("fail", error(code, "The disk is full"))
    answer = await client.modern("tools/call", {"name": "fail"})
    assert answer.result["isError"] is True
    assert answer.result["content"] == [{"type": "text", "text": "The disk is full"}]
    assert str(code).encode() not in answer.body.replace(__version__.encode(), b"")


async def test_a_backend_that_talks_html_is_a_tool_error_without_the_html(
    client: Client, backend: ScriptedBackend
) -> None:
    backend.on("fail", Body(b"<h1>Oops at 10.0.0.7</h1>", 500, "text/html"))
    answer = await client.modern("tools/call", {"name": "fail"})
    assert answer.result["isError"] is True
    assert b"10.0.0.7" not in answer.body


@each("params", [{}, {"name": None}, {"name": 5}, {"name": ""}, {"name": ["add"]}])
async def test_a_call_without_a_name_is_invalid_params_in_band(client: Client, params: dict[str, Any]) -> None:
    """The shape of CallToolRequest is wrong: -32602 on 200, so that no client takes us for another era."""
    assert (await client.modern("tools/call", params)).fault == (200, -32602)


@each("arguments", [[], [1], "x", 5, True])
async def test_arguments_that_are_no_object_are_invalid_params(client: Client, arguments: Any) -> None:
    assert (await client.modern("tools/call", {"name": "numbers", "arguments": arguments})).fault == (200, -32602)


@each("params", [{}, {"arguments": {}}, {"arguments": None}])
async def test_missing_arguments_are_no_arguments(client: Client, params: dict[str, Any]) -> None:
    found = (await client.modern("tools/call", {"name": "numbers", **params})).result
    assert found["structuredContent"] == [1, 2, 3]


@each("name", ["nope", "Add", "add ", "__proto__", "../add", "add\r\nX: 1"])
async def test_an_unknown_tool_is_invalid_params_in_band(client: Client, backend: ScriptedBackend, name: str) -> None:
    """server/tools "Error handling": a protocol error, and not a 404, which would mean the method."""
    encoded = f"=?base64?{b64encode(name.encode()).decode()}?="
    answer = await client.mcp(modern_request("tools/call", {"name": name}), modern_headers("tools/call", encoded))
    assert answer.fault == (200, -32602)
    assert answer.error["message"].startswith("Unknown tool")
    assert backend.requests == []


@each("extra", [{"task": {"ttl": 1}}, {"inputResponses": {}}, {"requestState": "x"}, {"x": 1}])
async def test_unknown_params_are_ignored_and_not_forwarded(
    client: Client, backend: ScriptedBackend, extra: dict[str, Any]
) -> None:
    """server/tools, schema.ts CallToolRequest."""
    backend.requests.clear()
    call = {"name": "add", "arguments": {"a": 2, "b": 3}}
    assert (await client.modern("tools/call", call | extra)).result["structuredContent"] == {"sum": 5}
    assert [request.params for request in backend.requests] == [call["arguments"]]
