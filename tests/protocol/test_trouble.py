"""Backends that do not keep what their listing promises, and listings that cannot be had, through every surface."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gateway.backend.transport import MAX_LISTING
from gateway.config.source import ConfigError
from gateway.discovery.views import MAX_TOOLS
from gateway.invocation.invocation import MAX_BROKEN_RESULT
from tests.each import each
from tests.fault.behaviours import Body, Cut, result
from tests.fault.methods import METHODS, Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front
from tests.program import run
from tests.protocol.conftest import Connect
from tests.waiting import PATIENCE

QUICK = "catalog.ttl=50ms"
AGE = Rpc("age", {}, {"type": "integer"}, run=lambda: "old enough")
PERSON = Rpc("person", {}, {"type": "object", "required": ["name"]}, run=dict)
STRICT_LISTING = """
methods:
  add:
    params:
      a: {schema: {type: number}, required: true}
      b: {schema: {type: number}, required: true}
"""


# --- a result that breaks its schema --------------------------------------------------------------------------


@each("surface", SURFACES)
@each(("tool", "value"), [("age", "old enough"), ("person", {})])
async def test_a_broken_promise_is_said_once_and_then_not_made_again(
    surface: Surface, tool: str, value: object
) -> None:
    async with ScriptedBackend((AGE, PERSON)) as backend, front(backend.url) as gateway:
        other = "person" if tool == "age" else "age"
        assert (await gateway.tools(surface))[tool]["outputSchema"]
        called = await gateway.call(surface, tool, {})
        said, _, kept = called.message.partition("\n\n")
        assert said.startswith("The call ran; its result breaks the listed output schema: ")
        assert kept == (value if isinstance(value, str) else json.dumps(value))
        listed = await gateway.tools(surface)
        assert not listed[tool].get("outputSchema")
        assert listed[other]["outputSchema"]
        assert (await gateway.call(surface, tool, {})).value == value
        assert backend.calls(tool) == 2


async def test_a_result_that_breaks_its_schema_is_cut_and_shows_nothing_invisible() -> None:
    async with ScriptedBackend((AGE,)) as backend, front(backend.url) as gateway:
        backend.on("age", result("seven\u202e" + "x" * 200_000))
        kept = (await gateway.call("modern", "age", {})).message.partition("\n\n")[2]
        assert kept.startswith("sevenxxx")
        assert kept.endswith("x…")
        assert len(kept.encode()) == MAX_BROKEN_RESULT


async def test_listeners_hear_that_the_promise_is_gone(connect: Connect) -> None:
    async with ScriptedBackend((AGE,)) as backend:
        client = await connect(url=backend.url)
        async with client.listen({"toolsListChanged": True}) as stream:
            await stream.message()
            await client.post("/mcp/tools/invoke", {"name": "age", "arguments": {}})
            assert (await stream.message())["method"] == "notifications/tools/list_changed"


# --- a listing that cannot be had -----------------------------------------------------------------------------


@each(
    "spoilt",
    {
        "cut short": Cut("half", answer=result(openrpc(METHODS))),
        "500": Body(b"<html>", 500, "text/html"),
        "404": Body(b"", 404, None),
        "no list": result({"openrpc": "1.3.2", "info": {}, "methods": "none"}),
        "beyond the size": result({**openrpc(METHODS), "padding": "x" * MAX_LISTING}),
        "beyond the count": result(openrpc([Rpc(f"m{n}") for n in range(MAX_TOOLS + 1)])),
    },
)
async def test_what_is_no_whole_listing_changes_nothing(spoilt: Body) -> None:
    async with ScriptedBackend() as backend, front(backend.url, QUICK) as gateway:
        before = await gateway.tools()
        backend.on("rpc.discover", spoilt)
        asked = backend.calls("rpc.discover")
        async with asyncio.timeout(PATIENCE):
            await backend.called("rpc.discover", asked + 2)
        assert await gateway.tools() == before
        assert len(before) == 4


@each("surface", SURFACES)
async def test_the_fallback_file_serves_a_backend_that_lists_nothing(surface: Surface, tmp_path: Path) -> None:
    file = tmp_path / "methods.yaml"
    file.write_text(STRICT_LISTING)
    async with ScriptedBackend() as backend:
        backend.on("rpc.discover", Body(b"", 404, None))
        async with front(backend.url, f"catalog.fallback={file}") as gateway:
            assert set(await gateway.tools(surface)) == {"add"}
            assert (await gateway.call(surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}


@each(
    ("content", "fault"),
    [
        (None, "No such file"),
        ("methods: 3", ":1: methods: must be a mapping"),
        ("a: [", ": did not find expected node content"),
    ],
)
async def test_a_fallback_that_cannot_be_used_is_found_at_the_start(
    tmp_path: Path, content: str | None, fault: str
) -> None:
    file = tmp_path / "methods.yaml"
    if content is not None:
        file.write_text(content)
    async with ScriptedBackend() as backend:
        with pytest.raises(ConfigError) as caught:
            async with front(backend.url, f"catalog.fallback={file}"):
                pass
        assert caught.value.faults[0].startswith("catalog.fallback")
        assert fault in caught.value.faults[0]


async def test_check_says_that_what_it_shows_is_the_fallback(tmp_path: Path) -> None:
    file = tmp_path / "methods.yaml"
    file.write_text(STRICT_LISTING)
    async with ScriptedBackend() as backend:
        knobs = (f"backend.url={backend.refused_url}", f"catalog.fallback={file}", "auth.mode=off")
        ran = await run("check", *(part for knob in knobs for part in ("--set", knob)))
    assert ran.code == 0
    assert f"this is catalog.fallback, {file}" in ran.out
