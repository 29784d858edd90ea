"""Questions to people through clients of the older era: ``elicitation/create`` on the stream of the call (2025-06-18
and 2025-11-25, client/elicitation).

Methods that ask are in test_methods_that_ask.py, how long a person has in tests/unit/test_elicitor.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.methods import ADD, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.asking import ACCEPT, question_on, respond, result_of, session_of, text_of
from tests.protocol.conftest import Connect
from tests.protocol.talk import LEGACY, Client, legacy_headers, request
from tests.tables import each_row
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("both_servers")


LATEST, FORMS_ONLY = LEGACY[:2]
CONFIRM = "catalog.tools.add.confirm=true"
CALL = {"name": "add", "arguments": {"a": 2, "b": 3}}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [ADD, Rpc("plain")]


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect(CONFIRM)


# --- consent ----------------------------------------------------------------------------------------------------


@each("version", (LATEST, FORMS_ONLY))
async def test_a_call_that_a_person_agreed_to_is_made_once(
    client: Client, backend: ScriptedBackend, version: str
) -> None:
    backend.requests.clear()
    headers = await session_of(client, version)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
        assert "mode" not in asked["params"]
        assert "\na: 2\nb: 3" in asked["params"]["message"]
        assert backend.requests == []
        await respond(client, headers, asked["id"], result=ACCEPT)
        assert text_of(await result_of(stream)) == (False, '{"sum":5}')
    assert len(backend.requests) == 1


@each("action", ("decline", "cancel"))
async def test_a_call_that_a_person_does_not_want_is_not_made(
    client: Client, backend: ScriptedBackend, action: str
) -> None:
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
        await respond(client, headers, asked["id"], result={"action": action})
        failed, text = text_of(await result_of(stream))
    assert (failed, backend.requests) == (True, [])
    assert text == "The person did not agree to this call, so it was not made"


async def test_a_client_that_cannot_ask_ends_the_call_with_its_reason(client: Client, backend: ScriptedBackend) -> None:
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
        await respond(client, headers, asked["id"], error={"code": -32601, "message": "No window"})
        assert text_of(await result_of(stream)) == (
            True,
            "The client could not ask the user: No window; the call ended",
        )
    assert backend.requests == []


@each("outcome", ({"result": {}}, {"result": {"action": "maybe"}}, {"result": "accept"}, {"error": "accept"}))
async def test_what_is_no_answer_is_no_consent(client: Client, backend: ScriptedBackend, outcome: Any) -> None:
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
        await respond(client, headers, asked["id"], **outcome)
        failed, text = text_of(await result_of(stream))
    assert failed
    assert text.startswith("The client could not ask the user")
    assert backend.requests == []


async def test_a_second_answer_changes_nothing(client: Client, backend: ScriptedBackend) -> None:
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
        await respond(client, headers, asked["id"], result={"action": "decline"})
        await respond(client, headers, asked["id"], result=ACCEPT)
        assert (await result_of(stream))["isError"]
        await respond(client, headers, asked["id"], result=ACCEPT)
    assert backend.requests == []


async def test_an_answer_in_another_session_is_not_heard(client: Client, backend: ScriptedBackend) -> None:
    headers, other = await session_of(client), await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
        await respond(client, other, asked["id"], result=ACCEPT)
        assert (
            await client.mcp({"jsonrpc": "2.0", "id": asked["id"], "result": ACCEPT}, legacy_headers(LATEST))
        ).status == 202
        await respond(client, headers, asked["id"], result={"action": "decline"})
        assert (await result_of(stream))["isError"]
    assert backend.requests == []


@each("agreed", (0, 1))
async def test_the_answer_to_one_call_is_no_consent_to_another(
    client: Client, backend: ScriptedBackend, agreed: int
) -> None:
    headers = await session_of(client)
    async with (
        client.stream(request("tools/call", CALL, 1), headers) as first,
        client.stream(request("tools/call", CALL, 2), headers) as second,
    ):
        ids = [(await question_on(stream))["id"] for stream in (first, second)]
        assert ids[0] != ids[1]
        await respond(client, headers, ids[agreed], result=ACCEPT)
        await respond(client, headers, ids[1 - agreed], result={"action": "decline"})
        failed = [(await result_of(stream))["isError"] for stream in (first, second)]
    assert failed == [agreed == 1, agreed == 0]
    assert len(backend.requests) == 1


async def test_a_person_is_asked_again_for_the_next_call(client: Client) -> None:
    headers = await session_of(client)
    for _ in range(2):
        async with client.stream(request("tools/call", CALL), headers) as stream:
            asked = await question_on(stream)
            await respond(client, headers, asked["id"], result=ACCEPT)
            assert not (await result_of(stream))["isError"]


# --- who can be asked -------------------------------------------------------------------------------------------


@each_row
async def test_a_client_that_does_not_declare_it_is_told_what_it_lacks(
    client: Client, backend: ScriptedBackend, version: str, capabilities: Any
) -> None:
    headers = await session_of(client, version, capabilities)
    answer = await client.mcp(request("tools/call", CALL), headers)
    failed, text = text_of(answer.result)
    assert (failed, backend.requests) == (True, [])
    assert "declares the capability elicitation" in text


async def test_a_client_without_a_session_or_a_stream_is_told_what_it_lacks(client: Client) -> None:
    answers = [await client.legacy("tools/call", CALL)]
    headers = await session_of(client)
    answers.append(await client.mcp(request("tools/call", CALL), {**headers, "Accept": "application/json"}))
    for answer in answers:
        failed, text = text_of(answer.result)
        assert failed
        assert "declares the capability elicitation and accepts text/event-stream" in text


async def test_a_tool_that_asks_nothing_is_answered_without_a_stream(client: Client) -> None:
    headers = await session_of(client)
    assert (await client.mcp(request("tools/call", {"name": "plain", "arguments": {}}), headers)).result


@each_row
async def test_the_log_says_what_came_of_a_call_whose_client_was_asked(
    client: Client, answer: dict[str, Any], outcome: str
) -> None:
    headers = await session_of(client)
    with capture_logs() as lines:
        async with client.stream(request("tools/call", CALL), headers) as stream:
            await respond(client, headers, (await question_on(stream))["id"], **answer)
            await stream.rest()
        async with asyncio.timeout(PATIENCE):
            while not (said := [line["outcome"] for line in lines if line.get("method") == "tools/call"]):  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert said == [outcome]


# --- streams ----------------------------------------------------------------------------------------------------


async def test_progress_goes_on_while_a_person_is_asked(connect: Connect) -> None:
    client = await connect(CONFIRM, "mcp.heartbeat=50ms")
    headers = await session_of(client)
    body = request("tools/call", CALL | {"_meta": {"progressToken": "p"}})
    async with client.stream(body, headers) as stream:
        seen = [(await stream.message())["method"] for _ in range(4)]
        assert sorted(set(seen)) == ["elicitation/create", "notifications/progress"]


async def test_who_closes_the_stream_can_no_longer_agree(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(CONFIRM, "limits.streams=1")
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        asked = await question_on(stream)
    await until(client.has_room_for_a_stream)
    await respond(client, headers, asked["id"], result=ACCEPT)
    async with client.stream(request("tools/call", CALL), headers) as stream:  # whatever was under way is over
        again = await question_on(stream)
        await respond(client, headers, again["id"], result={"action": "decline"})
        assert (await result_of(stream))["isError"]
    assert backend.requests == []


async def test_a_question_ends_with_its_session_and_with_no_other(client: Client, backend: ScriptedBackend) -> None:
    headers, others = await session_of(client), await session_of(client)
    async with (
        client.stream(request("tools/call", CALL), headers) as stream,
        client.stream(request("tools/call", CALL), others) as other,
    ):
        asked, still_asked = await question_on(stream), await question_on(other)
        assert (await client.send("DELETE", "/mcp", headers=headers)).status == 204
        assert text_of(await result_of(stream)) == (
            True,
            "The session in which the user was asked ended; so did the call",
        )
        assert (await client.mcp({"jsonrpc": "2.0", "id": asked["id"], "result": ACCEPT}, headers)).status == 404
        await respond(client, others, still_asked["id"], result=ACCEPT)
        assert text_of(await result_of(other)) == (False, '{"sum":5}')
    assert len(backend.requests) == 1


async def test_a_cancelled_call_takes_its_question_back(client: Client, backend: ScriptedBackend) -> None:
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL, 7), headers) as stream:
        asked = await question_on(stream)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await client.mcp(cancelled, headers)).status == 202
        rest = await stream.rest()
    assert [(message["method"], message["params"]["requestId"]) for message in rest] == [
        ("notifications/cancelled", asked["id"])
    ]
    assert backend.requests == []


async def test_waiting_for_a_person_takes_no_turn_and_no_concurrent_call(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(CONFIRM, "backend.connections=1", "limits.concurrent=1")
    headers = await session_of(client)
    async with client.stream(request("tools/call", CALL), headers) as stream:
        await question_on(stream)
        async with asyncio.timeout(PATIENCE):
            assert (await client.mcp(request("tools/call", {"name": "plain", "arguments": {}}), headers)).result
    assert [sent.method for sent in backend.requests] == ["plain"]
