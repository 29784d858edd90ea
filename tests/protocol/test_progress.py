"""Progress of calls (basic/patterns/progress of 2026-07-28, basic/utilities/progress of the older revisions)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.each import each
from tests.fault.behaviours import error
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.streams import Mark, Stream
from tests.protocol.talk import (
    CAPABILITIES,
    LEGACY,
    MODERN,
    Answer,
    Client,
    legacy_headers,
    modern_headers,
    modern_request,
    request,
)
from tests.protocol.watched import Watched

ERAS = (MODERN, *LEGACY)
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}
BEAT = "mcp.heartbeat=50ms"
every_era = each("era", ERAS)


def called(era: str, token: Any, params: Mapping[str, Any] = ADD, id: Any = 1) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of a call that asks for progress."""
    asking = {**params, "_meta": {**params.get("_meta", {}), "progressToken": token}}
    if era == MODERN:
        return modern_request("tools/call", asking, id), modern_headers("tools/call", params.get("name"))
    return request("tools/call", asking, id), legacy_headers(era)


async def call(client: Client, era: str, token: Any, params: Mapping[str, Any] = ADD) -> Answer:
    body, headers = called(era, token, params)
    return await client.mcp(body, headers)


async def progress(stream: Stream) -> Any:
    """The params of the next message, which is a notification."""
    message = await stream.message()
    assert message["method"] == "notifications/progress"
    return message["params"]


def told(token: Any, tool: str, beat: int) -> dict[str, Any]:
    """The params of a notification, beats being 50 ms."""
    message = f"Waiting for {tool}" + (f", {50 * beat}ms so far" if beat else "")
    return {"progressToken": token, "progress": beat, "message": message}


@each("token", ["p-7", "", "7", 7, 0, -1, 2**53])
@every_era
async def test_progress_grows_from_zero_under_the_token_until_the_response_ends_the_stream(
    connect_once: Connect, backend: ScriptedBackend, era: str, token: Any
) -> None:
    """The token goes back with its type; values MUST grow; nothing comes after the response."""
    client = await connect_once(BEAT)
    watched = Watched()
    backend.on("add", watched)
    body, headers = called(era, token, id="mine")
    async with client.stream(body, headers) as stream:
        for beat in range(4):
            expected = told(token, "add", beat)
            if era == "2024-11-05":  # knows no message
                del expected["message"]
            assert await progress(stream) == expected
        watched.release()
        *more, response = await stream.rest()
    assert [message["params"]["progress"] for message in more] == list(range(4, 4 + len(more)))
    assert response["id"] == "mine"
    assert response["result"]["content"] == [{"type": "text", "text": '{"sum":5}'}]


async def test_token_types_are_kept_apart(connect: Connect, backend: ScriptedBackend) -> None:
    """7 is not "7": clients look their tokens up by value and type."""
    client = await connect(BEAT)
    for token in (7, "7"):
        first, *_ = (await call(client, MODERN, token)).messages
        assert type(first["params"]["progressToken"]) is type(token)


@every_era
async def test_a_call_that_is_over_at_once_has_at_most_the_first_beat(client: Client, era: str) -> None:
    *before, response = (await call(client, era, "p")).messages
    assert [message["params"]["progress"] for message in before] == [0]
    assert response["result"]["isError"] is False


@every_era
async def test_a_call_that_fails_says_so_at_the_end_of_the_stream(
    client: Client, backend: ScriptedBackend, era: str
) -> None:
    backend.on("add", error(-32050, "The disk is full"))
    response = (await call(client, era, "p")).messages[-1]
    assert response["result"]["isError"] is True
    assert response["result"]["content"] == [{"type": "text", "text": "The disk is full"}]


@every_era
async def test_arguments_that_break_the_schema_are_told_on_the_stream_too(
    client: Client, backend: ScriptedBackend, era: str
) -> None:
    response = (await call(client, era, "p", {"name": "add", "arguments": {"a": "x"}})).messages[-1]
    assert response["result"]["isError"] is True
    assert backend.requests == []


@every_era
async def test_without_a_token_the_answer_is_json(client: Client, era: str) -> None:
    """basic/patterns/progress: MUST NOT be sent unasked."""
    answer = await client.speak(era, "tools/call", ADD)
    assert answer.result["isError"] is False


@each("accept", ["application/json", "*/*", "application/json, text/html"])
@every_era
async def test_who_does_not_accept_a_stream_gets_json_in_spite_of_the_token(
    client: Client, era: str, accept: str
) -> None:
    body, headers = called(era, "p")
    answer = await client.mcp(body, headers | {"Accept": accept})
    assert answer.result["isError"] is False


@each("token", [None, True, False, 1.5, 7.0, [], ["p"], {}, {"p": 1}])
@every_era
async def test_a_token_that_is_none_is_ignored(client: Client, era: str, token: Any) -> None:
    """schema.ts ``ProgressToken``: a string or an integer."""
    assert (await call(client, era, token)).result["isError"] is False


@each("method", ["tools/list", "ping"])
async def test_what_takes_no_time_has_no_progress(client: Client, method: str) -> None:
    answer = await client.legacy(method, {"_meta": {"progressToken": "p"}})
    assert answer.headers["Content-Type"].startswith("application/json")
    assert "error" not in answer.json


async def test_a_batch_has_no_progress_since_its_answer_is_one_array(client: Client) -> None:
    bodies = [called("2025-03-26", "p", id=id)[0] for id in (1, 2)]
    answer = await client.mcp(bodies, legacy_headers("2025-03-26"))
    assert [item["result"]["isError"] for item in answer.json] == [False, False]


@every_era
async def test_an_unknown_tool_is_refused_before_any_stream(client: Client, era: str) -> None:
    """A status and a JSON body, as without a token."""
    assert (await call(client, era, "p", {"name": "nope"})).fault == (200, -32602)


@every_era
async def test_arguments_that_are_no_object_are_refused_before_any_stream(client: Client, era: str) -> None:
    assert (await call(client, era, "p", {"name": "add", "arguments": [2, 3]})).fault == (200, -32602)


@every_era
async def test_a_backend_that_cannot_list_is_refused_before_any_stream(
    connect: Connect, backend: ScriptedBackend, era: str
) -> None:
    client = await connect(url=backend.refused_url)
    answer = await call(client, era, "p")
    assert answer.fault == (503, 503)
    assert int(answer.headers["Retry-After"]) >= 1


async def test_a_header_that_disagrees_is_refused_before_any_stream(client: Client, backend: ScriptedBackend) -> None:
    body, headers = called(MODERN, "p")
    assert (await client.mcp(body, headers | {"Mcp-Name": "echo"})).fault == (400, -32020)
    assert backend.requests == []


async def test_a_missing_capability_is_refused_before_any_stream(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect("catalog.tools.add.mcp=[sampling]")
    assert (await call(client, MODERN, "p")).fault == (400, -32021)
    declared = {**ADD, "_meta": {CAPABILITIES: {"sampling": {}}}}
    assert (await call(client, MODERN, "p", declared)).messages[-1]["result"]["isError"] is False
    assert backend.calls("add") == 1


async def test_many_calls_at_once_have_their_own_progress(connect: Connect, backend: ScriptedBackend) -> None:
    """Notifications of a stream belong to its request alone."""
    client = await connect(BEAT)
    held = [Watched(), Watched()]
    for name, watched in zip(("add", "numbers"), held, strict=True):
        backend.on(name, watched)
    one = client.stream(*called(MODERN, "one", id=1))
    other = client.stream(*called(MODERN, "other", {"name": "numbers"}, id=1))
    async with one as first, other as second:
        for beat in range(3):
            assert await progress(first) == told("one", "add", beat)
            assert await progress(second) == told("other", "numbers", beat)
        held[0].release()
        *_, response = await first.rest()
        assert response["result"]["structuredContent"] == {"sum": 5}
        following = count(3)
        for _ in range(2):
            assert await progress(second) == told("other", "numbers", next(following))
        held[1].release()
        *_, response = await second.rest()
    assert response["result"]["isError"] is True, "a sum where numbers are declared"


async def test_a_stream_that_waits_for_the_backend_ends_when_the_deadline_does(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(BEAT, "backend.timeout=1s")
    watched = Watched()
    backend.on("add", watched)
    async with client.stream(*called(MODERN, "p")) as stream:
        *before, response = await stream.rest()
        assert await stream.event() is Mark.END
    assert len(before) >= 2
    assert "in time" in response["result"]["content"][0]["text"]
    assert await watched.over() == "abandoned"
