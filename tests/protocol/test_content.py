"""Methods whose results are MCP content already (``mcp: [blocks]``): server/tools "Tool Result" of each revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import LEGACY, MODERN, Client, request
from tests.tables import each_row_and

pytestmark = pytest.mark.usefixtures("both_servers")


ERAS = (MODERN, *LEGACY)
BLOCKS = "catalog.tools.show.mcp=[blocks]"
TEXT = {"type": "text", "text": "Hello\n“you”"}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "A"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "QQ=="}}
LINK = {"type": "resource_link", "uri": "https://example.com/a", "name": "The report", "mimeType": "text/html"}
KINDS = [TEXT, IMAGE, AUDIO, RESOURCE, BLOB, LINK]
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [Rpc("show"), Rpc("typed", result={"type": "object", "properties": {"content": {"type": "array"}}})]


async def show(client: Client, era: str = MODERN, tool: str = "show") -> dict[str, Any]:
    """The result of a call, without what every result of its era has."""
    called: dict[str, Any] = (await client.speak(era, "tools/call", {"name": tool})).result
    return {key: value for key, value in called.items() if key not in ("resultType", "_meta")}


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect(BLOCKS)


@each("block", KINDS)
async def test_every_kind_of_block_goes_through_as_it_is(
    client: Client, backend: ScriptedBackend, block: dict[str, Any]
) -> None:
    more = {**block, "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"example.com/x": [1]}}
    backend.on("show", result([more, block]))
    assert await show(client) == {"content": [more, block], "isError": False}


async def test_blocks_keep_their_order(client: Client, backend: ScriptedBackend) -> None:
    backend.on("show", result({"content": [*KINDS, *reversed(KINDS)]}))
    assert (await show(client))["content"] == [*KINDS, *reversed(KINDS)]


@each("value", [[], {"content": []}])
@each("era", ERAS)
async def test_no_blocks_at_all_are_content_too(client: Client, backend: ScriptedBackend, era: str, value: Any) -> None:
    backend.on("show", result(value))
    assert await show(client, era) == {"content": [], "isError": False}


@each("failed", [True, False])
@each("era", ERAS)
async def test_the_object_form_says_whether_it_failed(
    client: Client, backend: ScriptedBackend, era: str, failed: bool
) -> None:
    backend.on("show", result({"content": [TEXT], "isError": failed}))
    assert await show(client, era) == {"content": [TEXT], "isError": failed}


@each("flag", ["true", 1, None, []])
async def test_only_true_is_a_failure(client: Client, backend: ScriptedBackend, flag: Any) -> None:
    backend.on("show", result({"content": [TEXT], "isError": flag}))
    assert (await show(client))["isError"] is False


@each("value", [{"n": 1}, {}, [1], "x", 5, None, False])
@each("era", ERAS)
async def test_the_object_form_has_structured_content_where_the_revision_has_it(
    client: Client, backend: ScriptedBackend, era: str, value: Any
) -> None:
    """Any JSON since 2026-07-28, objects from 2025-06-18 on, nothing before."""
    backend.on("show", result({"content": [TEXT], "structuredContent": value}))
    called = await show(client, era)
    allowed = era == MODERN or (era >= "2025-06-18" and isinstance(value, dict))
    assert called == {"content": [TEXT], "isError": False} | ({"structuredContent": value} if allowed else {})


async def test_nothing_else_of_the_object_form_goes_through(client: Client, backend: ScriptedBackend) -> None:
    """resultType and _meta are the gateway's to say."""
    backend.on("show", result({"content": [TEXT], "resultType": "input_required", "_meta": {"x": 1}, "extra": 1}))
    answer = (await client.modern("tools/call", {"name": "show"})).result
    assert answer["resultType"] == "complete"
    assert answer.keys() == {"content", "isError", "resultType", "_meta"}
    assert "x" not in answer["_meta"]


@each(
    ("block", "since", "words"),
    [
        (AUDIO, "2025-03-26", "[audio of type audio/wav, which this protocol revision cannot carry]"),
        (LINK, "2025-06-18", "The report: https://example.com/a"),
    ],
)
@each("era", ERAS)
async def test_a_block_that_a_revision_lacks_is_told_in_words(
    client: Client, backend: ScriptedBackend, era: str, block: dict[str, Any], since: str, words: str
) -> None:
    """schema.ts of each revision, ``CallToolResult.content``."""
    backend.on("show", result([TEXT, block, IMAGE]))
    shown = block if era >= since else {"type": "text", "text": words}
    assert (await show(client, era))["content"] == [TEXT, shown, IMAGE]


@each("era", [MODERN, "2025-11-25", "2024-11-05"])
@each_row_and({"too many blocks": [TEXT] * 1001})
async def test_what_is_no_content_is_a_tool_error(
    client: Client, backend: ScriptedBackend, era: str, value: Any
) -> None:
    """Clients refuse the whole answer otherwise. The log tells what the client got."""
    backend.on("show", result(value))
    with capture_logs() as logged:
        called = await show(client, era)
    assert [line["outcome"] for line in logged if line["event"] == "request"] == ["bad_backend_answer"]
    assert called["isError"] is True
    assert [block["type"] for block in called["content"]] == ["text"]
    assert "structuredContent" not in called


@each(
    "more",
    [
        {"annotations": "for everybody"}, {"annotations": {"audience": "user"}}, {"annotations": {"priority": "high"}},
        {"_meta": 5}, {"_meta": []},
    ],
)  # fmt: skip
@each("block", KINDS)
@each("era", [MODERN, "2025-11-25"])
async def test_optional_members_that_no_client_would_read_do_not_reach_one(
    client: Client, backend: ScriptedBackend, era: str, block: dict[str, Any], more: dict[str, Any]
) -> None:
    """The official models refuse them, see :mod:`tests.protocol.official`."""
    backend.on("show", result([{**block, **more}]))
    assert (await show(client, era))["content"] == [block]


@each("more", [{"size": "big"}, {"title": 5}, {"description": []}, {"mimeType": 5}, {"icons": "x"}])
async def test_optional_members_of_a_link_are_held_to_their_types(
    client: Client, backend: ScriptedBackend, more: dict[str, Any]
) -> None:
    backend.on("show", result([{**LINK, **more}]))
    assert (await show(client))["content"] == [{key: LINK[key] for key in LINK if key not in more}]


@each("era", ERAS)
async def test_a_listing_s_own_result_schema_describes_the_content_and_is_not_published(
    connect_once: Connect, backend: ScriptedBackend, era: str
) -> None:
    """outputSchema is of structuredContent: clients would miss it, or check it against the wrong schema."""
    client = await connect_once("catalog.tools.typed.mcp=[blocks]")
    backend.on("typed", result({"content": [TEXT], "structuredContent": {"content": "not a list"}}))
    listed = {tool["name"]: tool for tool in (await client.speak(era, "tools/list")).result["tools"]}
    assert "outputSchema" not in listed["typed"]
    assert (await show(client, era, "typed"))["isError"] is False


async def test_an_operator_s_output_schema_holds_for_structured_content(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """server/tools "Output schema": MUST conform, and MUST be there; an error needs none."""
    client = await connect(BLOCKS, f"catalog.tools.show.output_schema={SHAPE}")
    (tool, _) = (await client.modern("tools/list")).result["tools"]
    assert tool["outputSchema"] == SHAPE
    good = {"content": [TEXT], "structuredContent": {"n": 1}}
    backend.on("show", result(good))
    assert await show(client) == {**good, "isError": False}
    backend.on("show", result({"content": [TEXT], "isError": True}))
    assert await show(client) == {"content": [TEXT], "isError": True}


@each("bad", [{"content": [TEXT], "structuredContent": {"n": "1"}}, {"content": [TEXT]}, [TEXT]])
async def test_content_that_breaks_it_is_an_error(connect: Connect, backend: ScriptedBackend, bad: Any) -> None:
    client = await connect(BLOCKS, f"catalog.tools.show.output_schema={SHAPE}")
    backend.on("show", result(bad))
    called = await show(client)
    assert called["isError"] is True
    assert "structuredContent" not in called


@each("version", ["2025-11-25", "2025-06-18"])
async def test_an_output_schema_that_is_no_object_is_wrapped_for_older_revisions_and_the_content_alike(
    connect_once: Connect, backend: ScriptedBackend, version: str
) -> None:
    client = await connect_once(BLOCKS, "catalog.tools.show.output_schema={type: array}")
    backend.on("show", result({"content": [TEXT], "structuredContent": [1]}))
    (tool, _) = (await client.legacy("tools/list", version=version)).result["tools"]
    assert tool["outputSchema"]["properties"] == {"result": {"type": "array"}}
    assert (await show(client, version))["structuredContent"] == {"result": [1]}
    assert (await show(client))["structuredContent"] == [1]


@each("value", [[TEXT, LINK], {"content": [TEXT], "isError": True, "extra": [1]}, [], {"n": 1}, "x"])
async def test_rest_gives_the_raw_result(client: Client, backend: ScriptedBackend, value: Any) -> None:
    backend.on("show", result(value))
    assert (await client.post("/mcp/tools/invoke", {"name": "show"})).json == {"result": value}
    assert (await client.post("/mcp/tools/show", request("show"))).json["result"] == value


@each("era", ERAS)
async def test_blocks_of_a_tool_that_is_not_declared_so_are_plain_data(
    connect_once: Connect, backend: ScriptedBackend, era: str
) -> None:
    client = await connect_once()
    backend.on("show", result({"content": [IMAGE], "isError": True}))
    called = await show(client, era)
    assert called["isError"] is False
    assert [block["type"] for block in called["content"]] == ["text"]
