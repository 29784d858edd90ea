"""2024-11-05 to 2025-11-25: what each revision knows of tools and of their results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.each import each
from tests.fault.behaviours import error, result
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import METHODS, NAMES
from tests.protocol.conftest import Connect
from tests.protocol.talk import LEGACY, Client
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")


TITLED = ("2025-11-25", "2025-06-18")
"""Revisions with title, _meta, outputSchema and structuredContent (2025-06-18 changelog)."""
ANNOTATED = (*TITLED, "2025-03-26")
"""Revisions with annotations (2025-03-26 changelog)."""

WRAPPED = {
    "type": "object",
    "properties": {"result": {"type": "array", "items": {"type": "integer"}}},
    "required": ["result"],
}


async def tools_of(client: Client, version: str | None) -> dict[str, dict[str, Any]]:
    listed = (await client.legacy("tools/list", version=version)).result
    assert listed.keys() == {"tools"}, "neither resultType nor ttlMs nor a cursor on the last page"
    return {tool["name"]: tool for tool in listed["tools"]}


async def call(client: Client, version: str | None, tool: str, **arguments: Any) -> dict[str, Any]:
    called: dict[str, Any] = (
        await client.legacy("tools/call", {"name": tool, "arguments": arguments}, version=version)
    ).result
    assert "resultType" not in called
    return called


@each("version", [*LEGACY, None])
async def test_every_revision_lists_every_tool_with_name_description_and_input_schema(
    client: Client, version: str | None
) -> None:
    """server/tools "Tool" of each revision; the root of inputSchema is an object in all of them."""
    tools = await tools_of(client, version)
    assert list(tools) == NAMES
    for tool in tools.values():
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert all(isinstance(schema, dict) for schema in tool["inputSchema"]["properties"].values())


@each("version", [*LEGACY, None])
async def test_output_schemas_are_shown_where_the_revision_knows_them(client: Client, version: str | None) -> None:
    """2025-06-18 server/tools "Output schema"; its schema.ts wants an object at the root, so others are wrapped."""
    tools = await tools_of(client, version)
    shown = {name: tool["outputSchema"] for name, tool in tools.items() if "outputSchema" in tool}
    if version not in TITLED:
        assert shown == {}
        return
    assert shown.keys() == {"add", "greet", "numbers"}
    assert shown["add"] == {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    assert shown["numbers"] == WRAPPED
    assert shown["greet"]["properties"] == {"result": {"type": "string"}}


@each("version", LEGACY)
async def test_a_wrapped_schema_keeps_its_references(
    start: Any, session: Any, backend: ScriptedBackend, version: str
) -> None:
    """A definition moves to the new root, where ``#/$defs`` looks for it, and results still pass it."""
    tree = {"type": "array", "items": {"$ref": "#/components/schemas/Leaf"}}
    listed = {"name": "tree", "params": [], "result": {"name": "r", "schema": tree}}
    components = {"schemas": {"Leaf": {"type": "integer"}}}
    backend.on("rpc.discover", result({"openrpc": "1.3.2", "components": components, "methods": [listed]}))
    backend.on("tree", result([1, 2]))
    client = Client(session, (await start()).port)
    tool = (await tools_of(client, version))["tree"]
    called = await call(client, version, "tree")
    assert called["isError"] is False
    if version in TITLED:
        assert tool["outputSchema"]["properties"]["result"]["items"] == {"$ref": "#/$defs/Leaf"}
        assert tool["outputSchema"]["$defs"] == {"Leaf": {"type": "integer"}}
        assert called["structuredContent"] == {"result": [1, 2]}


@each("version", [*LEGACY, None])
async def test_titles_annotations_and_meta_are_shown_where_the_revision_knows_them(
    connect: Connect, backend: ScriptedBackend, version: str | None
) -> None:
    """title and _meta since 2025-06-18, annotations since 2025-03-26 (schema.ts of each, ``Tool``)."""
    listing = [method.listed() | {"tags": [{"name": "arithmetic"}]} for method in METHODS]
    backend.on("rpc.discover", result({"openrpc": "1.3.2", "methods": listing}))
    client = await connect("catalog.tools.add.title=Sum", "catalog.tools.add.annotations.readOnlyHint=true")
    tool = (await tools_of(client, version))["add"]
    expected = {"name", "description", "inputSchema"}
    if version in TITLED:
        expected |= {"title", "_meta", "outputSchema"}
        assert (tool["title"], tool["_meta"]) == ("Sum", {"tags": ["arithmetic"]})
    if version in (*ANNOTATED, None):
        expected |= {"annotations"}
        assert tool["annotations"] == {"readOnlyHint": True}
    assert tool.keys() == expected


@each("version", [*LEGACY, None])
@each_row
async def test_structured_content_is_an_object_or_absent(
    client: Client, version: str | None, name: str, arguments: Any, value: Any, structured: Any
) -> None:
    """2025-06-18 server/tools "Structured content"; unknown before, and MUST conform to the schema shown."""
    called = await call(client, version, name, **arguments)
    assert json.loads(called["content"][0]["text"]) == value
    assert called["isError"] is False
    assert called.get("structuredContent") == (structured if version in TITLED else None)
    assert called.keys() - {"structuredContent"} == {"content", "isError"}


@each("version", LEGACY)
async def test_a_string_is_plain_text_and_wrapped_where_its_schema_is(client: Client, version: str) -> None:
    called = await call(client, version, "greet", name="Ada")
    assert called["content"] == [{"type": "text", "text": "Hello, Ada"}]
    assert called.get("structuredContent") == ({"result": "Hello, Ada"} if version in TITLED else None)


@each("version", LEGACY)
async def test_an_object_is_wrapped_like_its_schema(
    start: Any, session: Any, backend: ScriptedBackend, version: str
) -> None:
    """A schema that is no ``type: object`` is shown wrapped, so the result must be, although it is an object."""
    either = {"anyOf": [{"type": "object"}, {"type": "null"}]}
    listed = {"name": "maybe", "params": [], "result": {"name": "r", "schema": either}}
    backend.on("rpc.discover", result({"openrpc": "1.3.2", "methods": [listed]}))
    backend.on("maybe", result({"x": 1}))
    client = Client(session, (await start()).port)
    called = await call(client, version, "maybe")
    assert called.get("structuredContent") == ({"result": {"x": 1}} if version in TITLED else None)


@each("version", LEGACY)
async def test_a_method_without_a_result_gives_text_alone(client: Client, version: str) -> None:
    called = await call(client, version, "void")
    assert called.keys() == {"content", "isError"}
    assert called["content"][0]["text"]


@each("version", LEGACY)
async def test_arguments_that_break_the_schema_are_a_tool_error_in_every_revision(
    client: Client, backend: ScriptedBackend, version: str
) -> None:
    """2025-11-25 changelog, minor 5 (SEP-1303): so that a model can mend its call."""
    called = await call(client, version, "add", a="two", b=3)
    assert called["isError"] is True
    assert "a: " in called["content"][0]["text"]
    assert "structuredContent" not in called
    assert backend.requests == []


@each("version", LEGACY)
async def test_a_backend_error_is_a_tool_error_in_every_revision(
    client: Client, backend: ScriptedBackend, version: str
) -> None:
    """server/tools "Error handling"."""
    backend.on("fail", error(-32001, "The disk is full"))
    assert await call(client, version, "fail") == {
        "content": [{"type": "text", "text": "The disk is full"}],
        "isError": True,
    }
