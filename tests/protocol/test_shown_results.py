"""What models see of results: the part that the operator chose, and no more than has room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from gateway.config.source import ConfigError, load_settings
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, front, ground
from tests.protocol.conftest import Connect
from tests.protocol.talk import modern_headers, modern_request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")


ITEM: Final = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
LISTED: Final = {"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}, "required": ["items"]}
ROWS: Final = Rpc("rows", {"limit": {"type": "integer"}}, result=LISTED)
ONE: Final = {"limit": 1}
VALUE: Final[dict[str, Any]] = {"items": [{"id": number, "note": "x" * 50} for number in range(100)], "total": 100}
CUT: Final = "catalog.tools.rows.result={max: 1KiB}"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [ROWS, Rpc("other")]


async def test_a_cut_result_is_text_alone_and_says_what_is_missing(backend: ScriptedBackend) -> None:
    backend.on("rows", result(VALUE))
    async with front(backend.url, CUT) as gateway:
        for surface in ("modern", "legacy"):
            shown = (await gateway.call(surface, "rows", ONE)).result
            assert "structuredContent" not in shown
            assert shown["_meta"]["truncated"] is True
            text, more = (block["text"] for block in shown["content"])
            assert len(text) <= 1024
            kept = json.loads(text)
            assert kept["total"] == 100
            assert kept["items"] == VALUE["items"][: len(kept["items"])]
            assert more == f"{100 - len(kept['items'])} more items: narrow with limit"


@each("settings", [(CUT,), ("catalog.results.max=1KiB",), ("catalog.tools.rows.result={fields: [total]}",)])
async def test_rest_and_json_rpc_have_the_whole_result(backend: ScriptedBackend, settings: Sequence[str]) -> None:
    backend.on("rows", result(VALUE))
    async with front(backend.url, *settings) as gateway:
        assert (await gateway.call("rest", "rows", ONE)).result == VALUE
        for url in (f"{gateway.base}/jsonrpc", f"{gateway.mcp}/tools/rows"):
            called = await gateway.post(url, {"jsonrpc": "2.0", "id": 1, "method": "rows", "params": ONE})
            assert called.body["result"] == VALUE


@each_row
async def test_a_tool_whose_results_are_changed_publishes_no_output_schema(
    backend: ScriptedBackend, setting: str, published: bool
) -> None:
    async with front(backend.url, setting) as gateway:
        for surface in SURFACES:
            assert bool((await gateway.tools(surface))["rows"].get("outputSchema")) is published


async def test_what_is_selected_is_shown_and_the_whole_is_still_checked(backend: ScriptedBackend) -> None:
    settings = "catalog.tools.rows.result={select: $.items, fields: [id]}"
    async with front(backend.url, settings) as gateway:
        backend.on("rows", result(VALUE))
        modern = (await gateway.call("modern", "rows", ONE)).result
        assert modern["structuredContent"] == [{"id": number} for number in range(100)]
        assert json.loads(modern["content"][0]["text"]) == modern["structuredContent"]
        assert "truncated" not in modern["_meta"]
        legacy = (await gateway.call("legacy", "rows", ONE)).result
        assert "structuredContent" not in legacy  # only objects are allowed there
        assert legacy["content"] == modern["content"]
        backend.on("rows", result({"items": [{"note": "no id"}]}))
        assert "breaks the listed output schema" in (await gateway.call("modern", "rows", ONE)).message


async def test_of_several_patterns_each_knob_of_the_result_counts(backend: ScriptedBackend) -> None:
    backend.on("rows", result(VALUE))
    tools = 'catalog.tools={"*": {result: {max: 1KiB, select: $.none}}, rows: {result: {select: $.items}}}'
    async with front(backend.url, tools) as gateway:
        (_, more) = (await gateway.call("modern", "rows", ONE)).result["content"]
        assert more["text"].endswith("more items: narrow with limit")


async def test_a_tool_that_search_calls_and_a_call_with_progress_are_cut_too(
    connect: Connect, backend: ScriptedBackend
) -> None:
    backend.on("rows", result(VALUE))
    client = await connect(CUT, "catalog.search=true")
    for name, arguments in (("call_tool", {"name": "rows", "arguments": ONE}), ("rows", ONE)):
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}}
        answer = await client.mcp(modern_request("tools/call", params), modern_headers("tools/call", name))
        assert len(answer.messages[-1]["result"]["content"]) == 2


@pytest.mark.own_server("it starts no gateway at all")
@each_row
def test_a_knob_that_cannot_be_is_refused(knob: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_settings(None, ground("http://127.0.0.1:1", f"catalog.tools.rows.result={knob}"), environ={})
