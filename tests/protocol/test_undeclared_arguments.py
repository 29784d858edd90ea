"""Arguments that a listing does not name are refused, and the published schema does not say so: LLM APIs refuse a
schema with ``additionalProperties``. A schema that names its dialect is published as it is, and so is every schema
beside MCP's names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.methods import ADD, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front
from tests.protocol.conftest import Connect
from tests.protocol.talk import request

pytestmark = pytest.mark.usefixtures("both_servers")

EXTRA = {"a": 2, "b": 3, "c": 4}
NOTHING = Rpc("nothing", {}, {}, "Take nothing")
OWN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"a": {"type": "object", "additionalProperties": False}},
}
OPEN: Final = {"type": "object", "properties": {"a": {"type": "object"}}}


def keywords(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for child in value.values():
            yield from keywords(child)


@each("knob", ["catalog.search=false", "catalog.search=true"])
@each("surface", SURFACES)
async def test_no_schema_of_ours_publishes_that_other_arguments_are_refused(surface: Surface, knob: str) -> None:
    async with ScriptedBackend((ADD, NOTHING)) as backend, front(backend.url, knob) as gateway:
        tools = await gateway.tools(surface)
        assert len(tools) == 2
        for tool in tools.values():
            assert tool["inputSchema"]["type"] == "object"
            assert "additionalProperties" not in keywords(tool["inputSchema"])


@each("surface", SURFACES)
async def test_an_argument_that_the_listing_does_not_name_is_refused_before_the_service(surface: Surface) -> None:
    async with ScriptedBackend((ADD, NOTHING)) as backend, front(backend.url) as gateway:
        for name, arguments, why in (
            ("add", EXTRA, "'c' was unexpected; valid are a, b"),
            ("nothing", {"x": 1}, "it takes no arguments"),
        ):
            called = await gateway.call(surface, name, arguments)
            assert called.message == f"Invalid arguments: {why}"
            assert backend.calls(name) == 0


@each("path", ["/jsonrpc", "/mcp/tools/add"])
async def test_so_it_is_where_json_rpc_is_spoken(connect: Connect, backend: ScriptedBackend, path: str) -> None:
    client = await connect()
    answer = await client.post(path, request("add", EXTRA))
    assert answer.error["code"] == -32602
    assert backend.calls("add") == 0


@each("surface", SURFACES)
async def test_the_gateways_own_tools_refuse_them_too(surface: Surface) -> None:
    async with ScriptedBackend((ADD,)) as backend, front(backend.url, "catalog.search=true") as gateway:
        called = await gateway.call(surface, "search_tools", {"query": "add", "page": 2})
        assert "'page' was unexpected" in called.message
        found = (await gateway.call(surface, "search_tools", {"query": "add"})).value["tools"]
        assert "additionalProperties" not in keywords(found[0]["inputSchema"])
        assert (
            "'c' was unexpected"
            in (await gateway.call(surface, "call_tool", {"name": "add", "arguments": EXTRA})).message
        )


@each("surface", SURFACES)
async def test_models_are_shown_no_closed_object_unless_its_schema_names_the_dialect(
    surface: Surface, tmp_path: Any
) -> None:
    closed = {**OWN, "additionalProperties": False}
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", **closed}
    methods = {
        "whole": {"input_schema": closed},
        "open": {"input_schema": OWN},
        "named": {"input_schema": named},
        "parameter": {"params": {"a": {"schema": OWN["properties"]["a"]}}},
    }
    file = tmp_path / "methods.json"
    file.write_text(json.dumps({"methods": methods}))
    knobs = ("backend.listing.dialect=static", f"backend.listing.file={file}")
    async with ScriptedBackend() as backend, front(backend.url, *knobs) as gateway:
        shown = {name: tool["inputSchema"] for name, tool in (await gateway.tools(surface)).items()}
        if surface == "rest":  # MCP's names
            assert shown == {"whole": closed, "open": OWN, "named": named, "parameter": OWN}
        else:
            assert shown == {"whole": OPEN, "open": OPEN, "named": named, "parameter": OPEN}
        for name, refused in (("whole", True), ("open", False), ("named", True), ("parameter", True)):
            called = await gateway.call(surface, name, {"a": {}, "other": 1})
            assert ("'other' was unexpected" in called.text) is refused
            assert "Invalid arguments: a" in (await gateway.call(surface, name, {"a": {"inner": 1}})).text
