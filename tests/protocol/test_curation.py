"""Curation as clients meet it, on MCP in both eras and on REST: hidden arguments, defaults, new names, clean texts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.config.source import load_settings
from tests.each import each
from tests.fault.behaviours import error
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.protocol.talk import request

pytestmark = pytest.mark.usefixtures("both_servers")

STRING, INTEGER = {"type": "string"}, {"type": "integer", "minimum": 1}
SECRET = "tenant-blue-7f3a"
SEARCH = Rpc("node.search", {"tenant": STRING, "query": STRING, "limit": INTEGER}, {}, "Search")
DELETE = Rpc("node.delete", {"id": STRING}, {}, "Delete")
LOGIN = Rpc("auth.login", {"user": STRING}, {}, "Log in")
CURATED = """catalog.tools={
    "node.*": {name: "content_*", arguments: {tenant: {hidden: true, default: tenant-blue-7f3a}}},
    node.search: {title: Find, arguments: {limit: {default: 5}}},
    node.delete: {annotations: {destructiveHint: true}, arguments: {tenant: {hidden: true, default: [1, null]}}},
}"""
BY_POSITION = "backend.params.structure=by-position"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (SEARCH, DELETE, LOGIN)


@pytest.fixture
async def gateway(backend: ScriptedBackend) -> AsyncIterator[Front]:
    async with front(backend.url, CURATED) as running:
        yield running


def sent(backend: ScriptedBackend) -> Any:
    """The params of the last call."""
    return json.loads(backend.requests[-1].body)["params"]


@each("surface", SURFACES)
async def test_tools_are_listed_as_the_operator_wants_them(gateway: Front, surface: Surface) -> None:
    tools = await gateway.tools(surface)
    assert tools.keys() == {"content_search", "content_delete"}
    search = tools["content_search"]
    assert search["title"] == "Find"
    assert search["inputSchema"] == {
        "type": "object",
        "properties": {"query": STRING, "limit": {**INTEGER, "default": 5}},
        "required": ["query"],
    }
    assert tools["content_delete"]["annotations"] == {"destructiveHint": True}
    assert SECRET not in json.dumps(tools)
    assert "tenant" not in json.dumps(tools)


@each("surface", SURFACES)
async def test_what_is_hidden_is_sent_and_what_is_left_out_is_filled_in(
    gateway: Front, backend: ScriptedBackend, surface: Surface
) -> None:
    called = await gateway.call(surface, "content_search", {"query": "x"})
    assert not called.failed
    assert sent(backend) == {"tenant": SECRET, "query": "x", "limit": 5}
    await gateway.call(surface, "node.search", {"query": "x", "limit": 9})
    assert sent(backend) == {"tenant": SECRET, "query": "x", "limit": 9}
    await gateway.call(surface, "content_delete", {"id": "1"})
    assert sent(backend) == {"id": "1", "tenant": [1, None]}


@each("surface", SURFACES)
async def test_a_caller_who_gives_a_hidden_argument_is_refused(
    gateway: Front, backend: ScriptedBackend, surface: Surface
) -> None:
    backend.requests.clear()
    for value in ("mine", SECRET, None):
        called = await gateway.call(surface, "content_search", {"query": "x", "tenant": value})
        assert called.failed
        assert "tenant" in called.message
        assert called.message.count(SECRET) == 0
    assert backend.requests == []


@each("surface", SURFACES)
async def test_by_position_the_hidden_argument_has_its_place(backend: ScriptedBackend, surface: Surface) -> None:
    async with front(backend.url, CURATED, BY_POSITION) as gateway:
        await gateway.call(surface, "content_search", {"query": "x"})
        assert sent(backend) == [SECRET, "x", 5]


async def test_positions_on_the_tools_own_path_are_those_that_are_published(backend: ScriptedBackend) -> None:
    async with front(backend.url, CURATED, BY_POSITION) as gateway:
        path = f"{gateway.mcp}/tools/content_search"
        answer = await gateway.post(path, request("content_search", ["x", 7]))
        assert "result" in answer.body
        assert sent(backend) == [SECRET, "x", 7]
        refused = await gateway.post(path, request("content_search", ["other", "x", 7]))
        assert refused.body["error"]["message"] == "Invalid arguments: 3 given, at most 2 are taken"


@each("surface", SURFACES)
async def test_the_backends_error_does_not_show_the_hidden_value(
    gateway: Front, backend: ScriptedBackend, surface: Surface
) -> None:
    backend.on("node.search", error(1001, f"no such tenant {SECRET} here"))
    called = await gateway.call(surface, "content_search", {"query": "x"})
    assert called.message == "no such tenant [redacted] here"
    assert SECRET not in called.everything


async def test_a_hidden_value_that_a_reload_brings_is_not_shown_either(backend: ScriptedBackend) -> None:
    base = (f"backend.url={backend.url}", "server.port=0", "server.admin_port=0", "auth.mode=off")
    async with front(backend.url, CURATED) as gateway:
        assert gateway.gateway is not None
        await gateway.gateway.reload(
            load_settings(None, [*base, CURATED.replace(SECRET, "tenant-red-1234")], environ={})
        )
        backend.on("node.search", error(1001, f"tenant-red-1234 is not {SECRET}"))
        called = await gateway.call("modern", "content_search", {"query": "x"})
        assert sent(backend)["tenant"] == "tenant-red-1234"
        assert called.message == "[redacted] is not [redacted]"


@each("surface", SURFACES)
async def test_a_method_that_is_hidden_by_default_cannot_be_called(
    gateway: Front, backend: ScriptedBackend, surface: Surface
) -> None:
    backend.requests.clear()
    if surface == "rest":
        assert (await gateway.call(surface, "auth.login", {"user": "x"})).code == "tool_not_found"
    else:
        called = await gateway.call(surface, "auth.login", {"user": "x"})
        assert called.body["error"]["code"] == -32602
    assert backend.requests == []


HOSTILE = "Ad\u200bd\u202e two.\U000e0049\U000e0067\x1b[31m"


@each("surface", SURFACES)
async def test_texts_are_clean_on_the_wire_and_labels_untouched(surface: Surface) -> None:
    schema = {"enum": ["a_b"], "description": HOSTILE, "items": {"title": HOSTILE}}
    add = Rpc("add", {"a": schema}, {"type": "object", "description": HOSTILE}, HOSTILE)
    async with ScriptedBackend((add,)) as backend, front(backend.url) as gateway:
        tool = (await gateway.tools(surface))["add"]
        assert tool["description"] == "Add two.[31m"
        assert tool["inputSchema"]["properties"]["a"] == {
            "enum": ["a_b"],
            "description": "Add two.[31m",
            "items": {"title": "Add two.[31m"},
        }
        assert tool["outputSchema"]["description"] == "Add two.[31m"


async def test_the_secret_may_come_from_a_file(backend: ScriptedBackend, tmp_path: Path) -> None:
    (tmp_path / "tenant").write_text("from-a-file\n")
    (tmp_path / "gateway.yaml").write_text(
        "catalog: {tools: {node.search: {arguments: {tenant: {hidden: true, default: '${file:tenant}'}}}}}"
    )
    async with front(backend.url, file=tmp_path / "gateway.yaml") as gateway:
        await gateway.call("modern", "node.search", {"query": "x", "limit": 1})
        assert sent(backend)["tenant"] == "from-a-file"
