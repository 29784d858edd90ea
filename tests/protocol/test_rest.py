"""REST: list, describe and invoke."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.each import each
from tests.fault.behaviours import Body, error, result
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import NAMES
from tests.protocol.conftest import Connect, Start
from tests.protocol.talk import Client
from tests.tables import each_row, each_row_and

pytestmark = pytest.mark.usefixtures("both_servers")


LIST, DESCRIBE, INVOKE = "/mcp/tools/list", "/mcp/tools/describe", "/mcp/tools/invoke"
ADD = {
    "name": "add",
    "title": "add",
    "description": "Add two numbers",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
    "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
    "annotations": {},
    "endpoint": "/mcp/tools/add",
    "method": "add",
    "requiresAuth": False,
}


def assert_rest_error(answer: Any, status: int, code: str) -> None:
    """Every error is ``{error: {code, message}}``, and nothing else."""
    assert answer.fault == (status, code)
    assert answer.json.keys() == {"error"}
    assert answer.error.keys() == {"code", "message"}
    assert isinstance(answer.error["message"], str)
    assert answer.error["message"]


async def test_list_has_every_member_that_older_clients_require(client: Client) -> None:
    """Even where MCP would leave one out: title is the name, schemas and annotations are objects, cursor is null."""
    answer = await client.get(LIST)
    assert answer.status == 200
    assert answer.json.keys() == {"tools", "nextCursor"}
    assert answer.json["nextCursor"] is None
    tools = {tool["name"]: tool for tool in answer.json["tools"]}
    assert list(tools) == NAMES
    assert tools["add"] == ADD
    assert tools["echo"]["outputSchema"] == {}
    assert {frozenset(tool) for tool in tools.values()} == {frozenset(ADD)}


async def test_describe_shows_one_tool_with_the_same_members(client: Client, backend: ScriptedBackend) -> None:
    answer = await client.get(f"{DESCRIBE}?name=add")
    assert (answer.status, answer.json) == (200, {"tool": ADD})
    assert (await client.get(f"{DESCRIBE}?name=echo")).json["tool"]["outputSchema"] == {}
    assert backend.requests == []


async def test_overrides_and_the_backends_method_are_shown(connect: Connect) -> None:
    client = await connect(
        "catalog.tools.add.name=sum", "catalog.tools.add.title=Sum", "catalog.tools.add.annotations.readOnlyHint=true"
    )
    for name in ("sum", "add"):
        tool = (await client.get(f"{DESCRIBE}?name={name}")).json["tool"]
        assert tool == ADD | {
            "name": "sum",
            "title": "Sum",
            "annotations": {"readOnlyHint": True},
            "endpoint": "/mcp/tools/sum",
        }


OWN = {"category": "content", "auth": {"level": "none", "description": "Any\u200bbody"}, "readOnlyHint": True}


@each_row
async def test_the_services_own_annotations_are_given_and_its_hints_where_they_are_trusted(
    start: Start, session: ClientSession, tmp_path: Any, knobs: Sequence[str], shown: Any
) -> None:
    file = tmp_path / "methods.json"
    file.write_text(json.dumps({"methods": {"purge": {"annotations": OWN}, "none": {}}}))
    gateway = await start("backend.listing.dialect=static", f"backend.listing.file={file}", *knobs)
    client = Client(session, gateway.port)
    auth = {"level": "none", "description": "Anybody"}
    listed = {tool["name"]: tool["annotations"] for tool in (await client.get(LIST)).json["tools"]}
    assert listed == {"purge": shown | {"auth": auth}, "none": {}}
    assert (await client.get(f"{DESCRIBE}?name=purge")).json["tool"]["annotations"] == listed["purge"]


@each("query", ["", "?name=", "?tool=add", "?Name=add"])
async def test_describe_without_a_name_is_a_missing_parameter(client: Client, query: str) -> None:
    assert_rest_error(await client.get(DESCRIBE + query), 400, "missing_parameter")


@each("name", ["nope", "Add", "%20add", "__proto__", "list"])
async def test_describing_an_unknown_tool_is_404(client: Client, name: str) -> None:
    assert_rest_error(await client.get(f"{DESCRIBE}?name={name}"), 404, "tool_not_found")


@each(
    ("name", "arguments", "expected"),
    [
        ("add", {"a": 2, "b": 3}, b'{"result":{"sum":5}}'),
        ("numbers", {}, b'{"result":[1,2,3]}'),
        ("greet", {"name": "Ada"}, b'{"result":"Hello, Ada"}'),
        ("echo", {"value": None}, b'{"result":null}'),
        ("void", {}, b'{"result":null}'),
    ],
)
async def test_invoke_gives_the_bare_result(client: Client, name: str, arguments: Any, expected: bytes) -> None:
    answer = await client.post(INVOKE, {"name": name, "arguments": arguments})
    assert (answer.status, answer.body) == (200, expected)


@each("members", [{}, {"arguments": None}, {"arguments": []}])
async def test_invoke_takes_no_arguments_as_none_and_as_php_writes_them(client: Client, members: Any) -> None:
    assert (await client.post(INVOKE, {"name": "numbers", **members})).json == {"result": [1, 2, 3]}


@each_row_and({"no JSON": (b"{", 400, "invalid_json")})
async def test_a_bad_invocation_is_refused_before_the_backend(
    client: Client, backend: ScriptedBackend, body: Any, status: int, code: str
) -> None:
    assert_rest_error(await client.post(INVOKE, body), status, code)
    assert backend.requests == []


@each(
    ("behaviour", "status", "code"),
    {
        "an error": (error(-32001, "The disk is full"), 500, "execution_error"),
        "Drupal's denial": (error(-32600, "No", "Access Denied: x"), 403, "access_denied"),
        "403": (Body(b"no", 403, "text/html"), 403, "access_denied"),
        "500": (Body(b"no", 500, "text/html"), 502, "backend_unavailable"),
        "HTML": (Body(b"<p>hi</p>", 200, "text/html"), 502, "bad_backend_answer"),
        "nothing": (Body(b"", 200), 502, "bad_backend_answer"),
        "result breaks its schema": (result({"sum": "five"}), 502, "result_mismatch"),
    },
)
async def test_what_the_backend_did_wrong_is_an_error_of_its_kind(
    client: Client, backend: ScriptedBackend, behaviour: Any, status: int, code: str
) -> None:
    backend.requests.clear()
    backend.on("add", behaviour)
    assert_rest_error(await client.post(INVOKE, {"name": "add", "arguments": {"a": 2, "b": 3}}), status, code)
    assert backend.calls("add") == 1


async def test_a_backend_that_is_down_is_503_for_lists_and_calls(connect: Connect, backend: ScriptedBackend) -> None:
    """Never an empty list that a client would believe."""
    client = await connect(url=backend.refused_url)
    for answer in (
        await client.get(LIST),
        await client.get(f"{DESCRIBE}?name=add"),
        await client.post(INVOKE, {"name": "add"}),
    ):
        assert_rest_error(answer, 503, "catalog_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1


async def test_a_backend_that_went_down_is_502_for_calls_while_the_list_is_served(
    client: Client, backend: ScriptedBackend
) -> None:
    await backend.close()
    assert_rest_error(
        await client.post(INVOKE, {"name": "add", "arguments": {"a": 2, "b": 3}}), 502, "backend_unavailable"
    )
    assert len((await client.get(LIST)).json["tools"]) == len(NAMES)
    await backend.open()


async def test_unknown_paths_are_errors_of_the_same_form(client: Client) -> None:
    assert_rest_error(await client.get("/mcp/tools"), 404, "not_found")
    assert_rest_error(await client.send("DELETE", INVOKE), 405, "method_not_allowed")
