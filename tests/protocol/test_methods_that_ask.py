"""Methods that ask a person back (``mcp: [input_required]``), through clients of the older era (client/elicitation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.each import each
from tests.fault.behaviours import InTurn, result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.asking import ACCEPT, CAN_ASK, question_on, respond, result_of, session_of, text_of
from tests.protocol.conftest import Connect
from tests.protocol.talk import LEGACY, Client, request

pytestmark = pytest.mark.usefixtures("both_servers")


LATEST, FORMS_ONLY = LEGACY[:2]
ASKING = "catalog.tools.ask.mcp=[input_required]"
BOTH = ("catalog.tools.ask.confirm=true", ASKING)
ASK = {"name": "ask", "arguments": {}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
FORM = {"message": "Who?", "requestedSchema": SCHEMA}
ELICIT = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
OPEN_URL = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Log in", "url": "https://login.example.com/"},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5},
}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [Rpc("ask")]


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect(ASKING)


def question(requests: object, state: str | None = None) -> dict[str, Any]:
    """What a method answers that needs more input."""
    asked = {"resultType": "input_required", "inputRequests": requests}
    return asked if state is None else asked | {"requestState": state}


async def test_answers_and_the_state_come_back_to_the_method_that_asked(
    client: Client, backend: ScriptedBackend
) -> None:
    backend.on("ask", InTurn((result(question({"who": ELICIT}, "half way")), result({"hello": "Ada"}))))
    headers = await session_of(client)
    answer = {"action": "accept", "content": {"name": "Ada"}}
    async with client.stream(request("tools/call", ASK), headers) as stream:
        asked = await question_on(stream)
        assert asked["params"] == FORM
        await respond(client, headers, asked["id"], result=answer)
        assert (await result_of(stream))["structuredContent"] == {"hello": "Ada"}
    first, second = (sent.params for sent in backend.requests)
    assert first == {"clientCapabilities": {"elicitation": {"form": {}}}}
    assert second == first | {"inputResponses": {"who": answer}, "requestState": "half way"}


async def test_2025_06_18_is_asked_without_a_mode(client: Client, backend: ScriptedBackend) -> None:
    backend.on("ask", InTurn((result(question({"who": ELICIT})), result(1))))
    headers = await session_of(client, FORMS_ONLY)
    async with client.stream(request("tools/call", ASK), headers) as stream:
        asked = await question_on(stream)
        assert asked["params"] == FORM
        await respond(client, headers, asked["id"], result={"action": "decline"})
        assert text_of(await result_of(stream)) == (False, "1")


async def test_several_questions_of_one_round_come_one_after_the_other(
    client: Client, backend: ScriptedBackend
) -> None:
    backend.on("ask", InTurn((result(question({"a": ELICIT, "b": ELICIT})), result(1))))
    headers = await session_of(client)
    async with client.stream(request("tools/call", ASK), headers) as stream:
        for _ in range(2):
            asked = await question_on(stream)
            await respond(client, headers, asked["id"], result=ACCEPT)
        assert text_of(await result_of(stream)) == (False, "1")
    assert backend.requests[1].params["inputResponses"] == {"a": ACCEPT, "b": ACCEPT}


async def test_consent_comes_before_the_method_s_own_questions(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(*BOTH)
    backend.on("ask", InTurn((result(question({"who": ELICIT})), result(1))))
    headers = await session_of(client)
    async with client.stream(request("tools/call", ASK), headers) as stream:
        consent = await question_on(stream)
        assert consent["params"]["message"].startswith("Run ask")
        await respond(client, headers, consent["id"], result=ACCEPT)
        asked = await question_on(stream)
        assert asked["params"]["message"] == "Who?"
        await respond(client, headers, asked["id"], result=ACCEPT)
        assert text_of(await result_of(stream)) == (False, "1")


async def test_a_url_is_shown_to_a_client_that_declares_it(client: Client, backend: ScriptedBackend) -> None:
    backend.on("ask", InTurn((result(question({"login": OPEN_URL})), result(1))))
    headers = await session_of(client, LATEST, {"elicitation": {"url": {}}})
    async with client.stream(request("tools/call", ASK), headers) as stream:
        asked = await question_on(stream)
        assert asked["params"] == {**OPEN_URL["params"], "elicitationId": asked["id"]}  # type: ignore[dict-item]
        await respond(client, headers, asked["id"], result={"action": "accept"})
        assert text_of(await result_of(stream)) == (False, "1")


@each(
    ("version", "capabilities", "asked"),
    (
        (LATEST, CAN_ASK, OPEN_URL),
        (FORMS_ONLY, CAN_ASK, OPEN_URL),
        (LATEST, {"elicitation": {}, "sampling": {}}, SAMPLE),
    ),
)
async def test_what_a_client_cannot_ask_is_a_fault_that_names_it(
    client: Client, backend: ScriptedBackend, version: str, capabilities: Any, asked: Any
) -> None:
    backend.on("ask", result(question({"q": asked})))
    headers = await session_of(client, version, capabilities)
    async with client.stream(request("tools/call", ASK), headers) as stream:
        failed, text = text_of(await result_of(stream))
    assert failed
    assert text.startswith("This tool needs a client with the capability")


async def test_a_method_that_asks_without_end_is_stopped(client: Client, backend: ScriptedBackend) -> None:
    backend.on("ask", result(question({"who": ELICIT})))
    headers = await session_of(client)
    async with client.stream(request("tools/call", ASK), headers) as stream:
        for _ in range(10):
            asked = await question_on(stream)
            await respond(client, headers, asked["id"], result=ACCEPT)
        assert text_of(await result_of(stream)) == (True, "The backend asked for input 10 times; the call ended")
