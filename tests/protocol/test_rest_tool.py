"""``/mcp/tools/{name}``: one tool, spoken to in JSON-RPC 2.0."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest

from tests.each import each
from tests.fault.behaviours import error
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import METHODS
from tests.protocol.conftest import Connect
from tests.protocol.talk import Client, request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")


OWN = ("list", "describe", "invoke")
READ_ONLY = "catalog.tools.numbers.annotations.readOnlyHint=true"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    """Tools whose names meet our own segments are among them."""
    return (*METHODS, *(Rpc(name, {}, run=lambda name=name: f"the tool {name}") for name in OWN))


def query(message: Any) -> str:
    return "?query=" + quote(message if isinstance(message, str) else json.dumps(message))


async def test_a_call_by_name_is_answered_as_json_rpc(client: Client, backend: ScriptedBackend) -> None:
    answer = await client.post("/mcp/tools/add", request("add", {"a": 2, "b": 3}, "mine"))
    assert (answer.status, answer.json) == (200, {"jsonrpc": "2.0", "id": "mine", "result": {"sum": 5}})
    assert [call.params for call in backend.requests] == [{"a": 2, "b": 3}]


async def test_positions_become_the_names_they_stand_for(client: Client, backend: ScriptedBackend) -> None:
    """They are then checked like arguments by name, and reach the backend as it takes them."""
    answer = await client.post("/mcp/tools/add", request("add", [2, 3]))
    assert answer.json["result"] == {"sum": 5}
    assert [call.params for call in backend.requests] == [{"a": 2, "b": 3}]


async def test_no_params_are_no_arguments(client: Client) -> None:
    for message in (request("numbers"), request("numbers", {}), request("numbers", [])):
        assert (await client.post("/mcp/tools/numbers", message)).json["result"] == [1, 2, 3]


@each_row
async def test_params_that_break_the_schema_are_invalid_params(
    client: Client, backend: ScriptedBackend, params: Any
) -> None:
    answer = await client.post("/mcp/tools/add", request("add", params, 9))
    assert answer.fault == (400, -32602)
    assert answer.json["id"] == 9
    assert backend.requests == []


@each("method", ["echo", "tools/call", "rpc.discover", "ADD", "add ", "list"])
async def test_another_tool_in_the_body_is_refused(client: Client, backend: ScriptedBackend, method: str) -> None:
    """What a proxy in front allows by path is what runs, and nothing else."""
    answer = await client.post("/mcp/tools/add", request(method, {"value": 1}, 9))
    assert answer.fault == (400, -32600)
    assert answer.json["id"] == 9
    assert backend.requests == []


async def test_the_body_may_name_the_tool_or_its_method_and_so_may_the_path(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect("catalog.tools.add.name=sum")
    for path in ("sum", "add"):
        for method in ("sum", "add"):
            answer = await client.post(f"/mcp/tools/{path}", request(method, [2, 3]))
            assert answer.json["result"] == {"sum": 5}
    assert backend.calls("add") == 4


@each_row
async def test_what_is_not_one_message_is_not_executed(client: Client, backend: ScriptedBackend, message: Any) -> None:
    assert (await client.post("/mcp/tools/add", message)).fault == (400, -32600)
    assert backend.requests == []


async def test_a_body_that_is_no_json_is_a_parse_error(client: Client) -> None:
    answer = await client.post("/mcp/tools/add", b"{")
    assert answer.fault == (400, -32700)
    assert answer.json["id"] is None


async def test_an_unknown_tool_is_404(client: Client, backend: ScriptedBackend) -> None:
    answer = await client.post("/mcp/tools/nope", request("nope", {}, 9))
    assert answer.fault == (404, -32601)
    assert answer.json["id"] == 9
    assert backend.requests == []


async def test_a_backend_error_comes_with_our_code_and_the_id(client: Client, backend: ScriptedBackend) -> None:
    """backend.errors: cleaned; what passes with the other value is in test_passed_errors.py."""
    backend.on("fail", error(-32001, "The disk is full"))
    answer = await client.post("/mcp/tools/fail", request("fail", id=9))
    assert answer.status == 500
    assert answer.json == {"jsonrpc": "2.0", "id": 9, "error": {"code": -32603, "message": "The disk is full"}}


@each("id", [0, "", -5, 2**70])
async def test_an_id_that_is_falsy_or_huge_is_still_an_id(client: Client, id: Any) -> None:
    for message in (request("add", [2, 3], id), request("add", [2], id), request("echo", [2], id)):
        assert (await client.post("/mcp/tools/add", message)).json["id"] == id


@each("name", OWN)
async def test_a_tool_with_the_name_of_our_own_segment_is_reached_through_its_suffixed_url(
    connect: Connect, backend: ScriptedBackend, name: str
) -> None:
    client = await connect(f"catalog.tools.{name}.annotations.readOnlyHint=true")
    endpoint = (await client.get(f"/mcp/tools/describe?name={name}")).json["tool"]["endpoint"]
    assert endpoint.startswith(f"/mcp/tools/{name}")
    assert endpoint != f"/mcp/tools/{name}"
    called = await client.post(endpoint, request(name))
    assert called.json["result"] == f"the tool {name}"
    assert (await client.get(endpoint + query(request(name)))).json["result"] == f"the tool {name}"
    assert backend.calls(name) == 2


async def test_our_own_segments_stay_ours(client: Client, backend: ScriptedBackend) -> None:
    assert "tools" in (await client.get("/mcp/tools/list")).json
    assert (await client.get("/mcp/tools/describe")).error["code"] == "missing_parameter"
    assert (await client.post("/mcp/tools/invoke", {"name": "numbers"})).json == {"result": [1, 2, 3]}
    assert [backend.calls(name) for name in OWN] == [0, 0, 0]


async def test_get_calls_a_tool_that_the_operator_marks_read_only(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(READ_ONLY)
    answer = await client.get("/mcp/tools/numbers" + query(request("numbers", id="mine")))
    assert (answer.status, answer.json) == (200, {"jsonrpc": "2.0", "id": "mine", "result": [1, 2, 3]})
    assert backend.calls("numbers") == 1


@each("mark", [None, "readOnlyHint=false", "idempotentHint=true", "destructiveHint=false"])
async def test_get_is_405_for_any_other_tool(connect: Connect, backend: ScriptedBackend, mark: str | None) -> None:
    """Explicit values only: a link or an image must not change anything."""
    client = await connect(*([f"catalog.tools.numbers.annotations.{mark}"] if mark else []))
    answer = await client.get("/mcp/tools/numbers" + query(request("numbers")))
    assert answer.fault == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "POST"
    assert backend.requests == []


@each(
    ("asked", "fault"),
    {
        "no query": ("", (400, "missing_parameter")),
        "empty": ("?query=", (400, -32700)),
        "not UTF-8": ("?query=%ff", (400, -32700)),
        "byte order mark": ("?query=%EF%BB%BF{}", (400, -32700)),
        "no JSON": (query("{"), (400, -32700)),
        "batch": (query([request("numbers")]), (400, -32600)),
        "another tool": (query(request("add", [2, 3])), (400, -32600)),
        "arguments": (query(request("numbers", [1])), (400, -32602)),
    },
)
async def test_a_query_is_held_to_the_rules_of_a_body(
    connect_once: Connect, backend: ScriptedBackend, asked: str, fault: tuple[int, Any]
) -> None:
    client = await connect_once(READ_ONLY)
    assert (await client.get("/mcp/tools/numbers" + asked)).fault == fault
    assert backend.requests == []


@each(
    ("site", "origin", "status"),
    [
        *((site, "", 403) for site in ("cross-site", "same-site", "same-origin, cross-site", "?1", "")),
        *((site, "", 200) for site in ("same-origin", "none")),
        *((site, "https://app.example.com", 200) for site in ("cross-site", "same-site")),
        *((site, "https://b.example.com", 403) for site in ("cross-site", "same-site", "same-origin")),
    ],
)
async def test_get_from_another_origin_is_403_unless_it_is_allowed(
    connect: Connect, backend: ScriptedBackend, site: str, origin: str, status: int
) -> None:
    """A foreign page's image or link has no Origin, but Sec-Fetch-Site tells (W3C Fetch Metadata)."""
    backend.requests.clear()
    client = await connect(READ_ONLY, "server.allowed_origins=[https://app.example.com]")
    headers = {"Sec-Fetch-Site": site, **({"Origin": origin} if origin else {})}
    answer = await client.get("/mcp/tools/numbers" + query(request("numbers")), **headers)
    assert answer.status == status
    assert backend.calls("numbers") == (status == 200)
    if status == 403:
        assert answer.error["code"] == "forbidden"


async def test_get_counts_as_a_listing_for_it_tells_which_tools_there_are(connect: Connect) -> None:
    client = await connect("limits.discovery=3/hour", READ_ONLY)
    for name, status in (("nope", 404), ("add", 405), ("numbers", 200), ("nope", 429), ("numbers", 429)):
        assert (await client.get(f"/mcp/tools/{name}" + query(request(name)))).status == status
    assert (await client.post("/mcp/tools/numbers", request("numbers"))).status == 200


async def test_get_of_an_unknown_tool_is_404(client: Client) -> None:
    assert (await client.get("/mcp/tools/nope" + query(request("nope")))).fault == (404, "tool_not_found")
