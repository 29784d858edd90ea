"""Nulls in place of arguments that the model left out: CrewAI and strict modes of LLM APIs send them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.behaviours import Body
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

METHODS: Final = {
    "find": {
        "params": {
            "query": {"required": True, "schema": {"type": "string"}},
            "limit": {"schema": {"type": "integer"}},
            "after": {"schema": {"type": ["string", "null"]}},
            "filter": {"schema": {"$ref": "#/$defs/filter"}},
            "any": {},
        },
    }
}
FILTER: Final = {
    "type": "object",
    "properties": {
        "year": {"type": "integer"},
        "kind": {},
        "range": {"type": "array", "items": {"type": "object", "properties": {"to": {"type": "integer"}}}},
        "by": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"name": {"type": "string"}}}]},
        "words": {"type": "array", "items": {"type": "string"}},
        "owner": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    },
}
ANSWER: Final = Body(b'{"jsonrpc":"2.0","id":null,"result":null}')


def listing(folder: Path) -> tuple[str, str]:
    whole = {
        "type": "object",
        "properties": {name: one.get("schema", {}) for name, one in METHODS["find"]["params"].items()},
        "required": ["query"],
        "$defs": {"filter": FILTER},
    }
    file = folder / "methods.json"
    file.write_text(json.dumps({"methods": {"find": {"input_schema": whole, "structure": "by-name", "result": False}}}))
    return "backend.listing.dialect=static", f"backend.listing.file={file}"


async def sent(gateway: Front, backend: ScriptedBackend, surface: Surface, arguments: dict[str, Any]) -> Any:
    """Return the params that the service got, None where the call was refused."""
    before = len(backend.requests)
    called = await gateway.call(surface, "find", arguments)
    if len(backend.requests) == before:
        assert called.failed
        return None
    return backend.requests[-1].json["params"]


@each("surface", SURFACES)
@each_row
async def test_a_null_that_an_optional_argument_or_member_refuses_is_left_out(
    surface: Surface, arguments: dict[str, Any], expected: dict[str, Any] | None, tmp_path: Path
) -> None:
    async with ScriptedBackend((), ANSWER) as backend, front(backend.url, *listing(tmp_path)) as gateway:
        assert await sent(gateway, backend, surface, arguments) == expected


async def test_json_rpc_passes_what_came(tmp_path: Path) -> None:
    async with ScriptedBackend((), ANSWER) as backend, front(backend.url, *listing(tmp_path)) as gateway:
        for url in (f"{gateway.base}/jsonrpc", f"{gateway.mcp}/tools/find"):
            body = {"jsonrpc": "2.0", "id": 1, "method": "find", "params": {"query": "x", "limit": None}}
            called = await gateway.post(url, body)
            assert "limit" in called.body["error"]["message"]
        assert backend.requests == []


@each("surface", SURFACES)
async def test_a_service_that_misses_what_was_null_is_told_so_to_the_caller(tmp_path: Path, surface: Surface) -> None:
    dialect, file = listing(tmp_path)
    written = tmp_path / "methods.json"
    written.write_text(written.read_text().replace(', "result": false', ""))
    find = Rpc("find", {"query": {}, "filter": {}})
    async with ScriptedBackend((find,)) as backend, front(backend.url, dialect, file) as gateway:
        called = await gateway.call(surface, "find", {"query": "x", "filter": None, "limit": None})
        nulls = "filter: null was left out; it takes object; limit: null was left out; it takes integer"
        assert called.message == f"Invalid params; {nulls}"
        assert (await gateway.call(surface, "find", {"query": "x", "after": None})).message == "Invalid params"
        large = await gateway.call(surface, "find", {"query": "x" * 100_000, "limit": None})
        assert large.message == "Invalid params; limit: null was left out; it takes integer"


@each("surface", SURFACES)
async def test_a_null_of_which_only_a_part_of_the_schema_knows_does_not_break_the_error(
    tmp_path: Path, surface: Surface
) -> None:
    file, parts = tmp_path / "methods.json", [{"properties": {"limit": {"type": "integer"}}}]
    file.write_text(json.dumps({"methods": {"find": {"input_schema": {"allOf": parts}, "structure": "by-name"}}}))
    knobs = "backend.listing.dialect=static", f"backend.listing.file={file}"
    async with ScriptedBackend((Rpc("find", {"query": {}}),)) as backend, front(backend.url, *knobs) as gateway:
        called = await gateway.call(surface, "find", {"limit": None})
    assert called.message == "Invalid params; limit: null was left out"


async def test_the_request_to_try_on_the_page_has_what_was_typed(tmp_path: Path) -> None:
    typed = {"query": "x", "limit": None}
    tried = {"find": typed, "call_tool": {"name": "find", "arguments": typed}}
    knobs = (*listing(tmp_path), "catalog.search=true")
    async with ScriptedBackend((), ANSWER) as backend, front(backend.url, *knobs) as gateway:
        for name, arguments in tried.items():
            found = (await gateway.post(f"{gateway.base}/page/{name}", {"arguments": arguments})).body
            assert found["params"] == {"query": "x"}, name
            assert json.loads(found["request"]["body"])["params"]["arguments"] == arguments, name
