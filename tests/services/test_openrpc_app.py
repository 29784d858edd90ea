"""PyPI openrpc through the gateway: a Python service listed by rpc.discover, called by name."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.front import SURFACES, Front, Surface, front
from tests.services.methods_file import written_and_read
from tests.services.process import Service

NODE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
    },
    "required": ["name"],
    "description": "Recursive model.",
}
EXACT = [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 2**70 + 1, 10**400, 0, -1]
VALUES = [None, True, 1.5, "", "plain text", "ünï → \u2028", [], [1, [2]], {}, {"a": {"b": None}}, {"result": 1}]


@pytest.fixture
async def gateway(openrpc_app: Service) -> AsyncIterator[Front]:
    async with front(openrpc_app.url) as running:
        yield running


async def test_every_method_but_the_listing_itself_becomes_a_tool(gateway: Front) -> None:
    tools = await gateway.tools()
    assert list(tools) == ["add", "big", "crash", "cross", "echo", "ping", "slow", "untyped", "walk", "withdraw"]


async def test_summary_description_types_and_required_are_the_services_own(gateway: Front) -> None:
    tools = await gateway.tools()
    assert tools["add"] == {
        "name": "add",
        "title": "Add two integers.",
        "description": 'Longer text.\n\nExamples:\n{"a":1,"b":2} → 1',
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "integer", "default": 2},
            },
            "required": ["a"],
        },
        "outputSchema": {"title": "Result", "type": "integer"},
    }
    assert tools["echo"]["description"].startswith("Answers any JSON value as it came.\n\n")
    assert tools["untyped"]["description"].endswith("Deprecated.")
    assert tools["untyped"]["_meta"]["deprecated"] is True


async def test_references_are_bundled_into_defs_and_a_recursive_one_stays_recursive(gateway: Front) -> None:
    tools = await gateway.tools()
    walk = tools["walk"]["inputSchema"]
    assert walk["properties"]["node"] == {"$ref": "#/$defs/Node"}
    assert walk["$defs"] == {"Node": NODE}
    cross = tools["cross"]
    assert cross["inputSchema"]["$defs"]["Vector3"]["required"] == ["x", "y"]
    assert cross["outputSchema"]["required"] == ["x", "y"]
    assert cross["outputSchema"]["title"] == "Vector3"
    for tool in tools.values():
        assert "components" not in str(tool)


async def test_older_revisions_get_output_schemas_that_are_objects(gateway: Front) -> None:
    tools = await gateway.tools("legacy")
    assert {tool["outputSchema"]["type"] for tool in tools.values() if "outputSchema" in tool} == {"object"}
    assert tools["add"]["outputSchema"]["properties"] == {"result": {"title": "Result", "type": "integer"}}
    assert tools["cross"]["outputSchema"]["title"] == "Vector3"


async def test_rest_lists_every_member_that_older_clients_require(gateway: Front) -> None:
    tool = (await gateway.tools("rest"))["cross"]
    assert (tool["title"], tool["endpoint"], tool["method"]) == ("cross", "/mcp/tools/cross", "cross")
    assert (tool["annotations"], tool["requiresAuth"]) == ({}, False)


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_bring_the_services_results(gateway: Front, surface: Surface) -> None:
    tree = {"name": "root", "children": [{"name": "a", "children": [{"name": "b"}]}, {"name": "c"}]}
    for tool, arguments, result in (
        ("add", {"a": 40}, 42),
        ("add", {"a": 2, "b": 3}, 5),
        ("cross", {"u": {"x": 1, "y": 0}, "v": {"x": 0, "y": 1}}, {"x": 0.0, "y": 0.0, "z": 1.0}),
        ("walk", {"node": tree}, ["root", "a", "b", "c"]),
        ("walk", {"node": tree, "depth": 1}, ["root", "a", "c"]),
    ):
        assert (await gateway.call(surface, tool, arguments)).value == result


@pytest.mark.parametrize("surface", SURFACES)
async def test_integers_of_any_size_are_exact_both_ways(gateway: Front, surface: Surface) -> None:
    for number in EXACT:
        called = await gateway.call(surface, "echo", {"value": {"number": number, "list": [number]}})
        assert called.value == {"number": number, "list": [number]}
    assert (await gateway.call(surface, "big", {})).value == 2**70 + 1


async def test_any_json_value_comes_back_as_it_went(gateway: Front) -> None:
    for value in VALUES:
        called = await gateway.call("rest", "echo", {"value": value})
        assert (type(called.value), called.value) == (type(value), value)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_method_that_answers_null_is_a_result(gateway: Front, surface: Surface) -> None:
    assert (await gateway.call(surface, "ping", {})).value is None


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_applications_error_reads_as_its_message_and_short_data(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "withdraw", {"amount": 200})
    assert called.message == 'Insufficient funds: {"balance":100}'
    assert "1001" not in called.text
    assert called.status == (500 if surface == "rest" else 200)
    assert (await gateway.call(surface, "withdraw", {"amount": 60})).value == 40


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_unforeseen_error_tells_nothing_of_the_services_inside(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "crash", {})
    assert called.message == "Server error"
    for inside in ("Traceback", "RuntimeError", "not foreseen", ".py", "-32000"):
        assert inside not in called.everything


@pytest.mark.parametrize("surface", SURFACES)
async def test_arguments_that_break_the_schema_never_reach_the_service(gateway: Front, surface: Surface) -> None:
    for tool, arguments, reason in (
        ("add", {}, '"a" is a required property'),
        ("add", {"a": "two"}, 'a: "two" is not of type "integer"'),
        ("add", {"a": 1, "c": 2}, "'c' was unexpected"),
        ("walk", {"node": {"name": "a", "children": [{"name": 5}]}}, 'node/children/0/name: 5 is not of type "string"'),
    ):
        called = await gateway.call(surface, tool, arguments)
        assert reason in called.message
        assert called.status == (400 if surface == "rest" else 200)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_that_takes_too_long_is_given_up(openrpc_app: Service, surface: Surface) -> None:
    async with front(openrpc_app.url, "backend.timeout=500ms") as gateway:
        called = await gateway.call(surface, "slow", {"seconds": 2})
        assert "did not answer in time" in called.message
        assert called.status == (504 if surface == "rest" else 200)


async def test_a_listing_file_can_make_a_method_a_notification(openrpc_app: Service, tmp_path: Path) -> None:
    file = tmp_path / "methods.yaml"
    file.write_text("methods: {ping: {result: false}, echo: {params: {value: {required: true}}}}")
    static = ("backend.listing.dialect=static", f"backend.listing.file={file}")
    async with front(openrpc_app.url, *static) as gateway:
        assert list(await gateway.tools()) == ["echo", "ping"]
        assert (await gateway.call("modern", "ping", {})).value == "Done. This method returns nothing."
        assert (await gateway.call("rest", "ping", {})).value is None


async def test_a_methods_file_has_all_that_the_listing_says(openrpc_app: Service, tmp_path: Path) -> None:
    written = await written_and_read(openrpc_app.url, tmp_path / "methods.yaml")
    assert "  add:\n    title: Add two integers.\n    description: |-\n      Longer text.\n" in written
    assert "$ref: '#/$defs/Node'" in written
