"""``x-mcp-header``: arguments that clients mirror into headers (2026-07-28, streamable-http, SEP-2243).

The official client is the judge of what is published and of what is sent.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from multidict import CIMultiDict

from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import JSON, LEGACY, MODERN, Answer, Client, modern_headers, modern_request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")


OPTIONS = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "dry-run"},
        "place": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        "plain": {"type": "string"},
    },
}
REGION = {"type": "string", "x-mcp-header": "Region"}
PLACE = Rpc("place", {"region": REGION, "options": OPTIONS}, run=lambda region, options: [region, options])


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [ADD, PLACE]


async def schema_of(client: Client, tool: str, era: str = MODERN) -> Any:
    tools = {tool["name"]: tool for tool in (await client.speak(era, "tools/list")).result["tools"]}
    return tools[tool]["inputSchema"]


async def place(
    client: Client,
    mirrored: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    region: object = "eu",
    **options: Any,
) -> Answer:
    """Call ``place`` with these headers; ``region`` of ... is none."""
    arguments = {"options": options} | ({} if region is ... else {"region": region})
    body = modern_request("tools/call", {"name": "place", "arguments": arguments})
    headers: CIMultiDict[str] = CIMultiDict(JSON | modern_headers("tools/call", "place"))
    headers.extend(mirrored if isinstance(mirrored, Mapping) else list(mirrored))
    return await client.send("POST", "/mcp", json.dumps(body).encode(), headers)


def ran(answer: Answer) -> Any:
    assert answer.result["isError"] is False, answer
    return answer.result["structuredContent"]


@each("era", [MODERN, *LEGACY])
async def test_good_annotations_are_published_as_they_are(client: Client, era: str) -> None:
    """Harmless to the older eras."""
    properties = (await schema_of(client, "place", era))["properties"]
    assert properties["region"]["x-mcp-header"] == "Region"
    assert properties["options"] == OPTIONS


@each(
    "options",
    [
        {},
        {"count": 42},
        {"count": -7},
        {"count": 0},
        {"dry": True},
        {"dry": False},
        {"place": {"zone": "b"}},
        {"count": 2**53 - 1, "dry": True, "place": {"zone": " Zürich\n"}, "plain": "x"},
        {"place": {}},
        {"place": {"zone": ""}},
        {"place": {"zone": "=?base64?"}},
    ],
)
@each("region", ["eu", "Zürich ", "=?base64?ZXU=?=", "a, b", "\t"])
async def test_what_the_official_client_sends_is_accepted(
    client: Client, backend: ScriptedBackend, options: dict[str, Any], region: str
) -> None:
    backend.requests.clear()
    mirrored = x_mcp_header_map(await schema_of(client, "place"))
    assert set(mirrored.values()) == {"Region", "Count", "dry-run", "Zone"}
    headers = mcp_param_headers(mirrored, {"region": region, "options": options})
    assert ran(await place(client, headers, region, **options)) == [region, options]
    assert not [name for name in backend.requests[-1].headers if name.lower().startswith("mcp-")]


@each_row
async def test_a_header_that_disagrees_is_refused(
    client: Client, backend: ScriptedBackend, mirrored: Any, options: dict[str, Any]
) -> None:
    """MUST be 400 and -32020, and nothing runs."""
    answer = await place(client, mirrored, **options)
    assert answer.fault == (400, -32020)
    assert answer.json["id"] == 1
    assert backend.requests == []


@each_row
async def test_integers_are_compared_as_numbers(client: Client, text: str, value: int | float) -> None:
    """SHOULD: not every language writes a whole number the same way."""
    assert ran(await place(client, {"Mcp-Param-Region": "eu", "Mcp-Param-Count": text}, count=value))[1] == {
        "count": value
    }


@each("text", ["43", "42.5", "4_2", "+42", "0x2a", "42.", "", " ", "nan", "inf", "1e999", "forty-two", "true", "42,42"])
async def test_what_is_not_the_same_number_is_refused(client: Client, backend: ScriptedBackend, text: str) -> None:
    answer = await place(client, {"Mcp-Param-Region": "eu", "Mcp-Param-Count": text}, count=42)
    assert answer.fault == (400, -32020)
    assert backend.requests == []


@each("text", ["\u0664\u0662", " 42", "42\n"])
async def test_digits_of_other_scripts_and_space_around_are_not_the_number(client: Client, text: str) -> None:
    encoded = f"=?base64?{b64encode(text.encode()).decode()}?="
    answer = await place(client, {"Mcp-Param-Region": "eu", "Mcp-Param-Count": encoded}, count=42)
    assert answer.fault == (400, -32020)


async def test_integers_beyond_doubles_are_compared_exactly(client: Client) -> None:
    region = {"Mcp-Param-Region": "eu"}
    beyond = 2**53 + 1
    assert ran(await place(client, region | {"Mcp-Param-Count": str(beyond)}, count=beyond))
    assert (await place(client, region | {"Mcp-Param-Count": str(beyond - 1)}, count=beyond)).fault == (400, -32020)


@each_row
async def test_booleans_are_true_and_false(client: Client, text: str, value: bool, agrees: bool) -> None:
    answer = await place(client, {"Mcp-Param-Region": "eu", "Mcp-Param-dry-run": text}, dry=value)
    assert (answer.json.get("error", {}).get("code") is None) == agrees


@each("region", ["eu", "=?base64?ZXU=?="])
@each("name", ["Mcp-Param-Region", "mcp-param-region", "MCP-PARAM-REGION"])
async def test_names_have_no_case_and_values_may_be_encoded(client: Client, name: str, region: str) -> None:
    assert ran(await place(client, {name: region}))[0] == "eu"


async def test_headers_of_no_parameter_are_ignored(client: Client) -> None:
    """MUST be ignored; and the lookalike of one that is not annotated as well."""
    unknown = {"Mcp-Param-Region": "eu", "Mcp-Param-Other": "x", "Mcp-Param-plain": "y", "Mcp-Param-": "z"}
    assert ran(await place(client, unknown, plain="x"))[1] == {"plain": "x"}


@each("region", [["eu"], {"eu": 1}])
async def test_a_value_that_no_header_can_say_is_told_as_a_bad_argument(
    client: Client, backend: ScriptedBackend, region: Any
) -> None:
    """Official clients leave the header out then; the model learns what to mend."""
    answer = await place(client, {}, region)
    assert answer.result["isError"] is True
    assert backend.requests == []


async def test_a_mismatch_is_told_before_bad_arguments(client: Client) -> None:
    """The order is that of the official servers: headers, then arguments."""
    assert (await place(client, {"Mcp-Param-Region": "6"}, 5)).fault == (400, -32020)
    assert (await place(client, {"Mcp-Param-Region": "5"}, 5)).result["isError"] is True


@each("version", LEGACY)
async def test_the_older_eras_need_no_such_header_and_nothing_is_compared(client: Client, version: str) -> None:
    params = {"name": "place", "arguments": {"region": "eu", "options": {}}}
    assert (await client.legacy("tools/call", params, version=version)).result["isError"] is False
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await client.mcp(body, {"MCP-Protocol-Version": version, "Mcp-Param-Region": "us"})
    assert answer.result["isError"] is False


async def test_arguments_of_a_tool_behind_call_tool_are_in_no_header(connect: Connect) -> None:
    """The client has not listed that tool, so that it cannot know."""
    client = await connect("catalog.search=true")
    inner = {"name": "place", "arguments": {"region": "eu", "options": {"count": 1}}}
    answer = await client.modern("tools/call", {"name": "call_tool", "arguments": inner})
    assert ran(answer) == ["eu", {"count": 1}]


async def test_rest_needs_no_such_header(client: Client) -> None:
    answer = await client.post("/mcp/tools/invoke", {"name": "place", "arguments": {"region": "eu", "options": {}}})
    assert answer.json == {"result": ["eu", {}]}


X = {"type": "string", "x-mcp-header": "X"}


def mentions(value: Any) -> bool:
    """Whether an annotation is anywhere."""
    if isinstance(value, dict):
        return any(mentions(child) for child in value.values()) or isinstance(value.get("x-mcp-header"), str)
    return isinstance(value, list) and any(map(mentions, value))


def listing(schema: object) -> dict[str, Any]:
    document = openrpc([ADD, Rpc("odd", {"value": schema, "region": REGION})])  # type: ignore[dict-item]
    named = dict.fromkeys(("Plain", "default", "properties", "x-mcp-header"), X)
    document["components"] = {"schemas": {**named, "Nested": {"type": "object", "properties": {"a": X}}}}
    return document


@each_row
async def test_a_bad_annotation_is_taken_out_and_the_tool_stays(
    connect: Connect, backend: ScriptedBackend, schema: Any
) -> None:
    """security.md S16: clients MUST drop a tool that has one, so none is published; the good one beside it stays."""
    backend.on("rpc.discover", result(listing(schema)))
    published = await schema_of(await connect(), "odd")
    assert find_invalid_x_mcp_header(published) is None
    assert published["properties"].pop("region")["x-mcp-header"] == "Region"
    assert not mentions(published)


async def test_what_is_left_of_the_schema_is_whole(connect: Connect, backend: ScriptedBackend) -> None:
    """A definition or a property may have the keyword's very name."""
    reference = {"$ref": "#/components/schemas/x-mcp-header"}  # twice, or it would be put in place
    properties = {"x-mcp-header": {"type": "string"}, "to": reference, "from": reference}
    value = {"type": "object", "properties": properties}
    backend.on("rpc.discover", result(listing(value)))
    client = await connect()
    published = await schema_of(client, "odd")
    assert published["properties"]["value"]["properties"]["x-mcp-header"] == {"type": "string"}
    assert published["$defs"] == {"x-mcp-header": {"type": "string"}}
    call = {"name": "odd", "arguments": {"region": "eu", "value": {"to": 5}}}
    headers = modern_headers("tools/call", "odd") | {"Mcp-Param-Region": "eu"}
    assert (await client.mcp(modern_request("tools/call", call), headers)).result["isError"] is True


async def test_of_two_annotations_alike_but_for_case_the_first_stays(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """MUST be unique whatever the case."""
    first, second = {"type": "string", "x-mcp-header": "Same"}, {"type": "string", "x-mcp-header": "sAME"}
    backend.on("rpc.discover", result(openrpc([Rpc("odd", {"a": first, "b": second})])))
    client = await connect()
    published = await schema_of(client, "odd")
    assert find_invalid_x_mcp_header(published) is None
    assert published["properties"] == {"a": first, "b": {"type": "string"}}


async def test_an_annotation_within_data_is_data(connect: Connect, backend: ScriptedBackend) -> None:
    value = {"type": "object", "default": X, "enum": [X, {}], "const": X}
    backend.on("rpc.discover", result(listing(value)))
    published = await schema_of(await connect(), "odd")
    assert published["properties"]["value"] == value
    assert find_invalid_x_mcp_header(published) is None
