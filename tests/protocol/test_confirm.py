"""Tools that a person has to agree to (``confirm``), before each call. Expiry is in
tests/unit/test_input_requests_unit.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.each import each
from tests.fault.behaviours import InTurn, result
from tests.fault.methods import ADD, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.pace import quickly
from tests.protocol.asking import result_of, session_of
from tests.protocol.conftest import Connect
from tests.protocol.talk import CAPABILITIES, LEGACY, Answer, Client, request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")


CONFIRM = "catalog.tools.add.confirm=true"
BOTH = ("catalog.tools.ask.confirm=true", "catalog.tools.ask.mcp=[input_required]")
TWO_AND_THREE = {"a": 2, "b": 3}
ACCEPT = {"confirm": {"action": "accept", "content": {}}}
CAN_ASK = {"elicitation": {}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
ELICIT = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": SCHEMA}}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [ADD, Rpc("ask"), Rpc("plain")]


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect(CONFIRM)


async def call(
    client: Client, tool: str = "add", arguments: Any = TWO_AND_THREE, capabilities: Any = CAN_ASK, **more: Any
) -> Answer:
    params = {"name": tool, "arguments": arguments, "_meta": {CAPABILITIES: capabilities}, **more}
    return await client.modern("tools/call", params)


async def asked(client: Client, **more: Any) -> str:
    """The state that comes with the question."""
    found = (await call(client, **more)).result
    assert found["resultType"] == "input_required"
    state: str = found["requestState"]
    return state


async def test_the_first_answer_is_a_question_to_the_person(client: Client, backend: ScriptedBackend) -> None:
    """It says what would run, and with what; nothing has run."""
    found = (await call(client)).result
    assert found["resultType"] == "input_required"
    assert list(found["inputRequests"]) == ["confirm"]
    question = found["inputRequests"]["confirm"]
    assert question["method"] == "elicitation/create"
    assert "add" in question["params"]["message"]
    assert question["params"]["message"].endswith(
        '?\nIts description: "Add two numbers"\nWith these arguments:\na: 2\nb: 3'
    )
    assert question["params"]["requestedSchema"] == {"type": "object", "properties": {}}
    assert backend.requests == []


async def test_arguments_made_of_combining_marks_cost_no_time_to_show(connect: Connect) -> None:
    client = await connect("catalog.tools.plain={confirm: true, arguments: {text: {schema: {type: string}}}}")
    with quickly(0.5):
        found = (await call(client, "plain", {"text": "a" + "\u0316\u0301" * 32_000})).result
    assert len(found["inputRequests"]["confirm"]["params"]["message"]) < 1200


async def test_once_accepted_the_call_runs_once(client: Client, backend: ScriptedBackend) -> None:
    state = await asked(client)
    found = (await call(client, inputResponses=ACCEPT, requestState=state)).result
    assert (found["resultType"], found["structuredContent"]) == ("complete", {"sum": 5})
    assert [sent.params for sent in backend.requests] == [TWO_AND_THREE]


@each("action", ["decline", "cancel", "ACCEPT", "", None, True, 1, ["accept"]])
async def test_anything_but_accept_is_a_no_and_the_backend_is_left_alone(
    client: Client, backend: ScriptedBackend, action: Any
) -> None:
    state = await asked(client)
    answers = {"confirm": {"action": action}}
    found = (await call(client, inputResponses=answers, requestState=state)).result
    assert (found["resultType"], found["isError"]) == ("complete", True)
    assert (await call(client, inputResponses=ACCEPT, requestState=state)).fault == (200, -32602)
    assert backend.requests == []


@each_row
async def test_a_missing_answer_asks_again(client: Client, backend: ScriptedBackend, answers: Any) -> None:
    """basic/patterns/mrtr: a server SHOULD ask again; the old state is still good for an answer."""
    backend.requests.clear()
    state = await asked(client)
    again = await asked(client, inputResponses=answers, requestState=state)
    assert again != state
    assert backend.requests == []
    assert (await call(client, inputResponses=ACCEPT, requestState=again)).result["isError"] is False


async def test_an_answer_without_a_state_is_none(client: Client, backend: ScriptedBackend) -> None:
    """A model could agree with itself before anybody was asked."""
    await asked(client, inputResponses=ACCEPT)
    assert backend.requests == []


async def test_a_consent_works_once(client: Client, backend: ScriptedBackend) -> None:
    state = await asked(client)
    agreed = {"inputResponses": ACCEPT, "requestState": state}
    assert (await call(client, **agreed)).result["isError"] is False
    for _ in range(2):
        assert (await call(client, **agreed)).fault == (200, -32602)
    assert backend.calls("add") == 1


async def test_of_many_who_bring_one_consent_at_once_one_runs(client: Client, backend: ScriptedBackend) -> None:
    agreed = {"inputResponses": ACCEPT, "requestState": await asked(client)}
    answers = await asyncio.gather(*(call(client, **agreed) for _ in range(10)))
    assert sorted(answer.json.get("error", {}).get("code", 0) for answer in answers) == [-32602] * 9 + [0]
    assert backend.calls("add") == 1


async def test_each_call_takes_a_consent_of_its_own(client: Client, backend: ScriptedBackend) -> None:
    for _ in range(2):
        state = await asked(client)
        assert (await call(client, inputResponses=ACCEPT, requestState=state)).result["isError"] is False
    assert backend.calls("add") == 2


@each("arguments", [{"a": 2, "b": 4}, {"a": 2.5, "b": 3}, {"a": 3, "b": 2}])
async def test_a_consent_is_for_the_arguments_that_were_shown(
    client: Client, backend: ScriptedBackend, arguments: Any
) -> None:
    state = await asked(client)
    assert (await call(client, arguments=arguments, inputResponses=ACCEPT, requestState=state)).fault == (200, -32602)
    assert backend.requests == []


async def test_the_order_of_members_makes_no_other_arguments(client: Client) -> None:
    state = await asked(client)
    answer = await call(client, arguments={"b": 3, "a": 2}, inputResponses=ACCEPT, requestState=state)
    assert answer.result["isError"] is False


async def test_a_consent_is_for_one_tool(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect("catalog.tools.*.confirm=true")
    state = await asked(client, tool="ask", arguments={})
    answer = await call(client, tool="plain", arguments={}, inputResponses=ACCEPT, requestState=state)
    assert answer.fault == (200, -32602)
    assert backend.requests == []


async def test_a_state_that_was_tampered_with_is_no_consent(client: Client, backend: ScriptedBackend) -> None:
    state = await asked(client)
    for forged in (state[:-2], state + "AA", "", "x", ("A" if state[0] != "A" else "B") + state[1:]):
        assert (await call(client, inputResponses=ACCEPT, requestState=forged)).fault == (200, -32602)
    assert backend.requests == []


async def test_a_consent_given_before_a_tool_changed_is_none(
    connect: Connect, backend: ScriptedBackend, tmp_path: Any
) -> None:
    """What the person agreed to is not what would run: docs/decisions/0005."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of more than sixteen bytes\n")
    one = await connect(CONFIRM, f"server.secret_file={secret}")
    other = await connect(CONFIRM, f"server.secret_file={secret}", "catalog.tools.add.description=Format the disk")
    state = await asked(one)
    assert (await call(other, inputResponses=ACCEPT, requestState=state)).fault == (200, -32602)
    assert backend.requests == []


async def test_bad_arguments_are_told_before_anybody_is_asked(client: Client, backend: ScriptedBackend) -> None:
    found = (await call(client, arguments={"a": "x"})).result
    assert (found["resultType"], found["isError"]) == ("complete", True)
    assert backend.requests == []


@each("modes", [{}, {"form": {}}, {"form": {}, "url": {}}])
async def test_a_client_that_can_show_a_form_is_asked(client: Client, modes: Any) -> None:
    assert (await call(client, capabilities={"elicitation": modes})).result["resultType"] == "input_required"


@each("capabilities", [{}, {"sampling": {}, "roots": {}}, {"elicitation": {"url": {}}}])
async def test_a_client_that_cannot_ask_is_refused(client: Client, backend: ScriptedBackend, capabilities: Any) -> None:
    """400, -32021, and the capability as an object."""
    answer = await call(client, capabilities=capabilities)
    assert answer.fault == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"elicitation": {}}}
    assert backend.requests == []


@each("version", LEGACY)
async def test_the_older_eras_get_an_error(client: Client, backend: ScriptedBackend, version: str) -> None:
    answer = await client.legacy("tools/call", {"name": "add", "arguments": TWO_AND_THREE}, version=version)
    assert answer.result["isError"] is True
    assert backend.requests == []


async def test_rest_and_a_tool_s_own_path_refuse_with_confirmation_required(
    client: Client, backend: ScriptedBackend
) -> None:
    """These surfaces cannot ask a person."""
    invoked = await client.post("/mcp/tools/invoke", {"name": "add", "arguments": TWO_AND_THREE})
    assert invoked.fault == (403, "confirmation_required")
    assert (await client.post("/mcp/tools/add", request("add", TWO_AND_THREE))).fault == (403, 403)
    assert backend.requests == []


async def test_other_tools_are_not_asked_for(client: Client, backend: ScriptedBackend) -> None:
    assert (await call(client, tool="plain", arguments={}, capabilities={})).result["isError"] is False


async def test_the_question_is_bounded_and_shows_no_control_characters(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """What a model wrote must not draw over what a person reads."""
    client = await connect("catalog.tools.plain.confirm=true", "catalog.tools.plain.arguments.x.schema={type: string}")
    found = (await call(client, tool="plain", arguments={"x": "\x1b[2J\u202e" + "x" * 100_000})).result
    message = found["inputRequests"]["confirm"]["params"]["message"]
    assert len(message) < 2500
    assert "\x1b" not in message
    assert "\u202e" not in message


async def test_what_nobody_reads_to_its_end_is_refused_without_a_question(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """Nothing is sent, in both eras."""
    client = await connect("catalog.tools.plain={confirm: true, arguments: {x: {schema: {type: array}}}}")
    arguments = {"x": list(range(51))}
    found = (await call(client, tool="plain", arguments=arguments)).result
    assert found["isError"] is True
    assert "more than 50 values or 8000 characters" in found["content"][0]["text"]
    headers = await session_of(client, "2025-11-25")
    async with client.stream(request("tools/call", {"name": "plain", "arguments": arguments}), headers) as stream:
        assert (await result_of(stream))["isError"] is True
    assert backend.calls("plain") == 0


async def test_a_tool_that_is_confirmed_may_ask_back_without_being_confirmed_again(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """One consent for one call, whatever rounds it takes; each state works once."""
    question = {"resultType": "input_required", "inputRequests": {"who": ELICIT}, "requestState": "own"}
    backend.on("ask", InTurn((result(question), result({"done": True}))))
    client = await connect(*BOTH)
    consent = await asked(client, tool="ask", arguments={})
    assert backend.requests == []
    found = (await call(client, "ask", {}, inputResponses=ACCEPT, requestState=consent)).result
    assert found["inputRequests"] == {"who": ELICIT}
    answers = {"who": {"action": "accept", "content": {"name": "Ada"}}}
    following = {"inputResponses": answers, "requestState": found["requestState"]}
    assert (await call(client, "ask", {}, **following)).result["structuredContent"] == {"done": True}
    assert [sent.params.get("requestState") for sent in backend.requests] == [None, "own"]
    assert (await call(client, "ask", {}, **following)).fault == (200, -32602)
    assert (await call(client, "ask", {}, inputResponses=ACCEPT, requestState=consent)).fault == (200, -32602)
    assert backend.calls("ask") == 2


async def test_the_person_s_consent_is_not_told_to_the_method(connect: Connect, backend: ScriptedBackend) -> None:
    """The question was the gateway's own."""
    client = await connect(*BOTH)
    backend.on("ask", result("done"))
    consent = await asked(client, tool="ask", arguments={})
    await call(client, "ask", {}, inputResponses=ACCEPT, requestState=consent)
    assert backend.requests[-1].params == {"clientCapabilities": CAN_ASK}


async def test_a_question_that_the_backend_asks_without_a_state_keeps_the_consent(
    connect: Connect, backend: ScriptedBackend
) -> None:
    question = {"resultType": "input_required", "inputRequests": {"who": ELICIT}}
    backend.on("ask", InTurn((result(question), result("done"))))
    client = await connect(*BOTH)
    consent = await asked(client, tool="ask", arguments={})
    found = (await call(client, "ask", {}, inputResponses=ACCEPT, requestState=consent)).result
    final = await call(
        client, "ask", {}, inputResponses={"who": {"action": "decline"}}, requestState=found["requestState"]
    )
    assert final.result["isError"] is False
    assert "requestState" not in backend.requests[-1].params
