"""Callers that call too often: on every surface, over HTTP. Too much at once is in test_concurrent_calls.py.

Ten calls may always come at once, so that the eleventh is the first one too many.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from aiohttp import ClientSession

from tests.each import each
from tests.fault.behaviours import InTurn, result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.asking import session_of
from tests.protocol.conftest import Connect, Start, settings
from tests.protocol.talk import (
    CAPABILITIES,
    LEGACY,
    MODERN,
    Client,
    modern_headers,
    modern_request,
    request,
)
from tests.tables import each_row
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("both_servers")


BURST: Final = 10
DAILY: Final = "limits.invocation=10/day"
ADD: Final = {"a": 2, "b": 3}
CALL: Final = {"name": "add", "arguments": ADD}
POLICY: Final = '"call";q=10;w=86400'
WORDS: Final = (
    "Too many calls: at most 10 per day. This call was not made. "
    "Wait 8640 s, then call again; the arguments may stay as they are"
)


async def use_up(client: Client, calls: int = BURST) -> None:
    for _ in range(calls):
        answer = await client.post("/jsonrpc", request("add", ADD))
        assert (answer.status, answer.json["result"]) == (200, {"sum": 5})


@each("version", [MODERN, *LEGACY])
async def test_on_mcp_a_call_too_many_is_a_result_that_tells_the_model_to_wait(
    connect: Connect, backend: ScriptedBackend, version: str
) -> None:
    client = await connect(DAILY)
    await use_up(client)
    answer = await client.speak(version, "tools/call", CALL)
    assert answer.result["isError"] is True
    assert answer.result["content"] == [{"type": "text", "text": WORDS}]
    assert answer.result["_meta"]["retryAfter"] == 8640
    assert answer.headers["Retry-After"] == "8640"
    assert answer.headers["RateLimit-Policy"] == POLICY
    assert answer.headers["RateLimit"] == '"call";r=0;t=86400'
    assert backend.calls("add") == BURST


@each_row
async def test_elsewhere_it_is_429(connect: Connect, backend: ScriptedBackend, path: str, body: Any) -> None:
    client = await connect(DAILY)
    await use_up(client)
    answer = await client.post(path, body)
    assert answer.status == 429
    assert answer.error["message"] == WORDS
    assert answer.error["code"] == ("rate_limited" if path.endswith("invoke") else 429)
    assert answer.headers["Retry-After"] == "8640"
    assert answer.headers["RateLimit-Policy"] == POLICY
    assert answer.headers["RateLimit"] == '"call";r=0;t=86400'
    assert backend.calls("add") == BURST


@each("path", ["/mcp/tools/add", "/jsonrpc"])
async def test_a_notification_too_many_is_429_too(connect: Connect, backend: ScriptedBackend, path: str) -> None:
    client = await connect(DAILY)
    await use_up(client)
    answer = await client.post(path, {"jsonrpc": "2.0", "method": "add", "params": ADD})
    assert (answer.status, answer.headers["Retry-After"]) == (429, "8640")
    assert backend.calls("add") == BURST


@each("path", ["/mcp", "/mcp/tools/invoke", "/mcp/tools/add", "/jsonrpc"])
async def test_every_answer_to_a_call_says_what_is_left(connect: Connect, path: str) -> None:
    client = await connect("limits.invocation=600/minute")
    body = {"/mcp/tools/invoke": CALL, "/mcp": modern_request("tools/call", CALL)}.get(path, request("add", ADD))
    answer = await client.post(path, body, modern_headers("tools/call", "add") if path == "/mcp" else None)
    assert answer.status == 200
    assert answer.headers["RateLimit-Policy"] == '"call";q=600;w=60'
    assert answer.headers["RateLimit"] == '"call";r=59;t=1'
    assert "Retry-After" not in answer.headers


async def test_each_item_of_a_batch_counts(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(DAILY)
    answer = await client.post("/jsonrpc", [request("add", ADD, id) for id in range(12)])
    assert ["result" in each for each in answer.json] == [True] * 10 + [False] * 2
    assert answer.json[-1]["error"] == {"code": 429, "message": WORDS}
    assert not {"RateLimit", "RateLimit-Policy", "Retry-After"} & {*answer.headers}  # they are of one item
    assert backend.calls("add") == BURST


async def test_each_item_of_a_batch_of_mcp_counts(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(DAILY)
    answer = await client.mcp([request("tools/call", CALL, id) for id in range(12)])
    assert [each["result"]["isError"] for each in answer.json] == [False] * 10 + [True] * 2
    assert answer.json[-1]["result"]["_meta"] == {"retryAfter": 8640}
    assert backend.calls("add") == BURST


async def test_a_call_counts_before_its_arguments_are_looked_at_and_an_unknown_tool_does_not(connect: Connect) -> None:
    client = await connect(DAILY)
    for _ in range(2 * BURST):
        assert (await client.post("/mcp/tools/invoke", {"name": "nobody"})).status == 404
    for _ in range(BURST):
        assert (await client.post("/mcp/tools/invoke", {"name": "add", "arguments": {"a": "two"}})).status == 400
    assert (await client.post("/mcp/tools/invoke", {"name": "add", "arguments": {"a": "two"}})).status == 429


async def test_listings_do_not_count_as_calls_nor_calls_as_listings(connect: Connect) -> None:
    client = await connect(DAILY)
    await use_up(client)
    assert (await client.modern("tools/list")).status == 200


async def test_a_tools_own_limit_holds_for_what_its_pattern_matches_each_apart(connect: Connect) -> None:
    client = await connect('catalog.tools={"[ae]*": {limit: 2/day}}')
    await use_up(client, 2)
    answer = await client.post("/jsonrpc", request("add", ADD))
    assert (answer.status, answer.headers["RateLimit-Policy"]) == (429, '"tool";q=2;w=86400')
    assert answer.error["message"].startswith("Too many calls of this tool: at most 2 per day. This call was not made.")
    for name, params, status in (("echo", {"value": 1}, 200), ("greet", {"name": "Ada"}, 200), ("add", ADD, 429)):
        assert (await client.post("/jsonrpc", request(name, params))).status == status


async def test_a_call_through_call_tool_counts_once_and_against_the_limit_of_what_it_names(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(DAILY, "catalog.search=true", "catalog.tools.add.limit=2/day")
    through = {"name": "call_tool", "arguments": {"name": "add", "arguments": ADD}}
    failed = [(await client.modern("tools/call", through)).result["isError"] for _ in range(3)]
    assert failed == [False, False, True]
    echo = {"name": "echo", "arguments": {"value": 1}}
    failed = [(await client.modern("tools/call", echo)).result["isError"] for _ in range(8)]
    assert failed == [False] * 7 + [True]
    assert (backend.calls("add"), backend.calls("echo")) == (2, 7)


async def test_the_answer_to_a_question_is_free_once(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(DAILY, "catalog.tools.add.confirm=true")
    asking = {**CALL, "_meta": {CAPABILITIES: {"elicitation": {}}}}
    accept = {"confirm": {"action": "accept", "content": {}}}
    for _ in range(BURST):
        asked = (await client.modern("tools/call", asking)).result
        answered = {**asking, "inputResponses": accept, "requestState": asked["requestState"]}
        answer = await client.modern("tools/call", answered)
        assert answer.result["structuredContent"] == {"sum": 5}
        assert "RateLimit" not in answer.headers
    assert (await client.modern("tools/call", asking)).result["isError"] is True
    assert (await client.modern("tools/call", answered)).result["isError"] is True
    assert backend.calls("add") == BURST


@each("version", LEGACY[:2])
async def test_a_call_that_lacks_a_capability_counts_once(connect: Connect, version: str) -> None:
    client = await connect(DAILY, "catalog.tools.add.mcp=[sampling]")
    answer = await client.mcp(request("tools/call", CALL), await session_of(client, version))
    assert answer.result["isError"] is True
    assert answer.headers["RateLimit"].startswith('"call";r=9;')


async def test_a_forged_answer_is_not_free(connect: Connect) -> None:
    client = await connect(DAILY, "catalog.tools.add.confirm=true")
    forged = {**CALL, "_meta": {CAPABILITIES: {"elicitation": {}}}, "requestState": "forged"}
    for _ in range(BURST):
        assert (await client.modern("tools/call", forged)).fault == (200, -32602)
    assert (await client.modern("tools/call", forged)).result["isError"] is True


class TestMethodsThatAsk:
    """A service that asks back without a state of its own."""

    @pytest.fixture
    def methods(self) -> list[Rpc]:
        return [Rpc("ask", {"topic": {"type": "string"}})]

    async def test_the_answer_to_a_services_question_is_free_too(
        self, connect: Connect, backend: ScriptedBackend
    ) -> None:
        asks = {"resultType": "input_required", "inputRequests": {"where": {"method": "roots/list"}}}
        backend.on("ask", InTurn((result(asks), result("sunny")) * (BURST + 1)))
        client = await connect(DAILY, "catalog.tools.ask.mcp=[input_required]")
        asking = {"name": "ask", "arguments": {"topic": "weather"}, "_meta": {CAPABILITIES: {"roots": {}}}}
        for _ in range(BURST):
            state = (await client.modern("tools/call", asking)).result["requestState"]
            given = {**asking, "inputResponses": {"where": {"roots": []}}, "requestState": state}
            assert (await client.modern("tools/call", given)).result["content"][0]["text"] == "sunny"
        assert (await client.modern("tools/call", asking)).result["isError"] is True


async def test_a_reload_changes_the_rate_at_once(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start(DAILY)
    client = Client(session, gateway.port)
    await use_up(client)
    await gateway.reload(settings(backend.url, "limits.invocation=1000000/second", "limits.concurrent=1"))
    await until(lambda: client.post("/jsonrpc", request("add", ADD)), lambda answer: answer.status != 429)


@each("version", [MODERN, LEGACY[0]])
async def test_a_call_too_many_that_asks_for_progress_opens_no_stream(connect: Connect, version: str) -> None:
    client = await connect(DAILY)
    await use_up(client)
    params = {**CALL, "_meta": {"progressToken": 1}}
    answer = await client.speak(version, "tools/call", params)
    assert answer.result["isError"] is True
