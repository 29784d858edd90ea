"""Methods that ask back: ``input_required`` (2026-07-28, basic/patterns/mrtr).

Expiry is in tests/unit/test_input_requests_unit.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.each import each
from tests.fault.behaviours import InTurn, result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import CAPABILITIES, LEGACY, SERVER, Answer, Client, modern_headers, modern_request, request
from tests.tables import each_row_and

pytestmark = pytest.mark.usefixtures("both_servers")


ASKING = ("catalog.tools.ask.mcp=[input_required]", "catalog.tools.other.mcp=[input_required]")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
ELICIT = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": SCHEMA}}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5},
}
ROOTS = {"method": "roots/list"}
ALL = {"elicitation": {}, "sampling": {}, "roots": {}}
ANSWER = {"who": {"action": "accept", "content": {"name": "Ada"}}}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    topic = {"topic": {"type": "string"}}
    return [Rpc("ask", topic), Rpc("other", topic), Rpc("plain", topic)]


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect(*ASKING)


def question(requests: object = None, state: object = None, **more: Any) -> dict[str, Any]:
    """What a method answers that needs more input."""
    asked = {"resultType": "input_required", **more}
    asked |= {} if requests is None else {"inputRequests": requests}
    return asked | ({} if state is None else {"requestState": state})


async def ask(
    client: Client,
    topic: str = "weather",
    tool: str = "ask",
    capabilities: Mapping[str, Any] = ALL,
    **more: Any,
) -> Answer:
    params = {"name": tool, "arguments": {"topic": topic}, "_meta": {CAPABILITIES: capabilities}, **more}
    return await client.modern("tools/call", params)


async def test_a_method_s_questions_go_to_the_client_and_the_answers_come_back_to_it(
    client: Client, backend: ScriptedBackend
) -> None:
    """The whole way: question, answers with the method's own state, result."""
    requests = {"who": ELICIT, "what": SAMPLE, "where": ROOTS}
    backend.on("ask", InTurn((result(question(requests, "half way")), result({"done": True}))))
    asked = (await ask(client)).result
    assert asked.keys() == {"resultType", "inputRequests", "requestState", "_meta"}
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"] == requests
    assert asked["_meta"][SERVER]["name"] == "Scripted backend"
    assert "half way" not in asked["requestState"]
    answers = {**ANSWER, "what": {"role": "assistant"}, "where": {"roots": []}}
    final = (await ask(client, inputResponses=answers, requestState=asked["requestState"])).result
    assert (final["resultType"], final["structuredContent"]) == ("complete", {"done": True})
    first, second = (sent.params for sent in backend.requests)
    assert first == {"topic": "weather", "clientCapabilities": ALL}
    assert second == first | {"inputResponses": answers, "requestState": "half way"}


async def test_questions_without_a_state_have_one_of_ours_which_the_method_does_not_see(
    client: Client, backend: ScriptedBackend
) -> None:
    backend.on("ask", result(question({"who": ELICIT})))
    asked = (await ask(client)).result
    await ask(client, inputResponses=ANSWER, requestState=asked["requestState"])
    assert backend.requests[-1].params == {"topic": "weather", "clientCapabilities": ALL, "inputResponses": ANSWER}


async def test_a_state_without_questions_is_passed_on_as_well(client: Client, backend: ScriptedBackend) -> None:
    """At least one of the two MUST be there: "come back later" has no question."""
    backend.on("ask", result(question(state="later")))
    asked = (await ask(client)).result
    assert "inputRequests" not in asked
    await ask(client, requestState=asked["requestState"])
    assert backend.requests[-1].params["requestState"] == "later"


async def test_a_method_may_ask_again_and_again(client: Client, backend: ScriptedBackend) -> None:
    rounds = [result(question({"who": ELICIT}, f"round {n}")) for n in range(3)]
    backend.on("ask", InTurn((*rounds, result("done"))))
    more: dict[str, Any] = {}
    for _ in range(3):
        more = {"inputResponses": ANSWER, "requestState": (await ask(client, **more)).result["requestState"]}
    assert (await ask(client, **more)).result["content"] == [{"type": "text", "text": "done"}]
    states = [sent.params.get("requestState") for sent in backend.requests]
    assert states == [None, "round 0", "round 1", "round 2"]


@each(
    ("requests", "missing"),
    [
        ({"who": ELICIT}, {"elicitation"}),
        ({"what": SAMPLE}, {"sampling"}),
        ({"where": ROOTS}, {"roots"}),
        ({"who": ELICIT, "what": SAMPLE}, {"elicitation", "sampling"}),
    ],
)
async def test_a_question_beyond_the_client_s_capabilities_is_refused_with_their_names(
    client: Client, backend: ScriptedBackend, requests: dict[str, Any], missing: set[str]
) -> None:
    """MUST NOT be asked what was not declared: 400, -32021, and an object of capabilities."""
    backend.on("ask", result(question(requests, "s")))
    declared = {name: {} for name in ALL if name not in missing}
    answer = await ask(client, capabilities=declared)
    assert answer.fault == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {name: {} for name in missing}}


async def test_a_page_is_only_asked_of_a_client_that_opens_pages(client: Client, backend: ScriptedBackend) -> None:
    page = {"message": "Sign in.", "mode": "url", "url": "https://example.com/in", "elicitationId": "e1"}
    backend.on("ask", result(question({"who": {"method": "elicitation/create", "params": page}}, "s")))
    answer = await ask(client, capabilities={"elicitation": {}})
    assert answer.fault == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert (await ask(client, capabilities={"elicitation": {"url": {}}})).result["resultType"] == "input_required"


async def test_on_a_stream_a_missing_capability_is_told_in_the_response(
    client: Client, backend: ScriptedBackend
) -> None:
    """The status has been sent by then."""
    backend.on("ask", result(question({"who": ELICIT})))
    meta = {CAPABILITIES: {}, "progressToken": "p"}
    answer = await client.modern("tools/call", {"name": "ask", "arguments": {"topic": "x"}, "_meta": meta})
    assert answer.messages[-1]["error"]["code"] == -32021


@each_row_and({"a state of 70,000 characters": ({"who": ELICIT}, "s" * 70_000)})
async def test_questions_that_are_none_are_a_tool_error(
    client: Client, backend: ScriptedBackend, requests: Any, state: Any
) -> None:
    """No client could read them, or bring an answer to them."""
    backend.on("ask", result(question(requests, state)))
    called = (await ask(client)).result
    assert called["resultType"] == "complete"
    assert called["isError"] is True


async def test_a_question_may_send_the_person_to_a_page(client: Client, backend: ScriptedBackend) -> None:
    """client/elicitation "URL mode"."""
    params = {"mode": "url", "message": "Sign in", "url": "https://example.com/sign-in"}
    requests = {"who": {"method": "elicitation/create", "params": params}}
    backend.on("ask", result(question(requests)))
    asked = await ask(client, capabilities={"elicitation": {"url": {}}})
    assert asked.result["inputRequests"] == requests


async def asked_state(client: Client, backend: ScriptedBackend, **more: Any) -> str:
    backend.on("ask", result(question({"who": ELICIT}, "backend's own")))
    state = (await ask(client, **more)).result["requestState"]
    assert isinstance(state, str)
    backend.requests.clear()
    return state


@each("how", ["tampered", "cut", "grown", "padded", "empty", "plain", "number", "object", "huge"])
async def test_a_state_that_is_not_as_it_was_given_is_refused(
    client: Client, backend: ScriptedBackend, how: str
) -> None:
    """Clients MUST bring it back as it is; anything else is -32602 and reaches no backend."""
    state = await asked_state(client, backend)
    changed: Any = {
        "tampered": state[:30] + ("A" if state[30] != "A" else "B") + state[31:],
        "cut": state[:-2],
        "grown": state + "AA",
        "padded": state + "=",
        "empty": "",
        "plain": "backend's own",
        "number": 5,
        "object": {"state": state},
        "huge": "A" * 100_000,
    }[how]
    assert (await ask(client, inputResponses=ANSWER, requestState=changed)).fault == (200, -32602)
    assert backend.requests == []


async def test_a_state_is_good_for_its_own_call_alone(client: Client, backend: ScriptedBackend) -> None:
    """It is bound to the tool and the arguments: an answer must not serve another question."""
    state = await asked_state(client, backend)
    answers = {"inputResponses": ANSWER, "requestState": state}
    assert (await ask(client, "politics", **answers)).fault == (200, -32602)
    assert (await ask(client, tool="other", **answers)).fault == (200, -32602)
    assert backend.requests == []
    assert (await ask(client, **answers)).result["resultType"] == "input_required"
    assert backend.requests[0].params["requestState"] == "backend's own"


async def test_a_state_of_another_gateway_is_refused(connect: Connect, backend: ScriptedBackend) -> None:
    one, other = await connect(*ASKING), await connect(*ASKING)
    state = await asked_state(one, backend)
    assert (await ask(other, inputResponses=ANSWER, requestState=state)).fault == (200, -32602)


async def test_a_cursor_is_no_state(connect: Connect, backend: ScriptedBackend) -> None:
    """One secret, and a key for each purpose."""
    client = await connect(*ASKING, "catalog.page_size=1")
    cursor = (await client.modern("tools/list")).result["nextCursor"]
    assert (await ask(client, requestState=cursor)).fault == (200, -32602)


async def test_any_replica_with_the_same_secret_goes_on(
    connect: Connect, backend: ScriptedBackend, tmp_path: Path
) -> None:
    """Nothing is kept between the rounds."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of more than sixteen bytes\n")
    one = await connect(*ASKING, f"server.secret_file={secret}")
    other = await connect(*ASKING, f"server.secret_file={secret}")
    state = await asked_state(one, backend)
    backend.on("ask", result("done"))
    assert (await ask(other, inputResponses=ANSWER, requestState=state)).result["isError"] is False
    assert backend.requests[-1].params["requestState"] == "backend's own"


@each("answers", [None, 5, "x", [], ["accept"], {"who": "Ada"}, {"who": None}, {"who": [1]}])
async def test_answers_that_are_no_objects_are_invalid_params(
    client: Client, backend: ScriptedBackend, answers: Any
) -> None:
    """schema.ts ``InputResponses``."""
    assert (await ask(client, inputResponses=answers)).fault == (200, -32602)
    assert backend.requests == []


@each("version", LEGACY)
async def test_the_older_eras_get_an_error_instead_of_the_question(
    client: Client, backend: ScriptedBackend, version: str
) -> None:
    backend.on("ask", result(question({"who": ELICIT}, "secret state")))
    answer = await client.legacy("tools/call", {"name": "ask", "arguments": {"topic": "x"}}, version=version)
    assert answer.result["isError"] is True
    assert b"secret state" not in answer.body
    assert backend.requests[-1].params == {"topic": "x"}, "nothing of a round that cannot be"


async def test_rest_refuses_with_input_required(client: Client, backend: ScriptedBackend) -> None:
    backend.on("ask", result(question({"who": ELICIT})))
    answer = await client.post("/mcp/tools/invoke", {"name": "ask", "arguments": {"topic": "x"}})
    assert answer.fault == (403, "input_required")
    answer = await client.post("/mcp/tools/ask", request("ask", {"topic": "x"}))
    assert answer.fault == (403, 403)


async def test_what_is_not_declared_to_ask_is_plain_data(client: Client, backend: ScriptedBackend) -> None:
    """A backend must not put questions to people unless the operator says that it may."""
    value = question({"who": ELICIT}, "s")
    backend.on("plain", result(value))
    called = (await ask(client, tool="plain", inputResponses=ANSWER, requestState="anything")).result
    assert (called["resultType"], called["structuredContent"]) == ("complete", value)
    assert backend.requests[-1].params == {"topic": "weather"}


@each("value", [{"resultType": "complete"}, {"resultType": "INPUT_REQUIRED"}, {"resultType": 5}, []])
async def test_another_result_of_a_method_that_may_ask_is_its_result(
    client: Client, backend: ScriptedBackend, value: Any
) -> None:
    backend.on("ask", result(value))
    called = (await ask(client)).result
    assert (called["resultType"], called["structuredContent"]) == ("complete", value)


async def test_requires_names_what_the_client_lacks_before_the_backend_is_asked(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """The operator knows what a tool needs: 400, -32021, the backend untouched."""
    client = await connect("catalog.tools.plain.mcp=[sampling, roots]")
    answer = await ask(client, tool="plain", capabilities={"roots": {}, "elicitation": {}})
    assert answer.fault == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert "sampling" in answer.error["message"]
    assert backend.requests == []
    assert (await ask(client, tool="plain")).result["isError"] is False


async def test_a_header_that_disagrees_is_told_before_a_missing_capability(connect: Connect) -> None:
    """The order is that of the official servers."""
    topic = "{schema: {type: string, x-mcp-header: Topic}}"
    client = await connect("catalog.tools.plain.mcp=[roots]", f"catalog.tools.plain.arguments.topic={topic}")
    body = modern_request("tools/call", {"name": "plain", "arguments": {"topic": "x"}})
    headers = modern_headers("tools/call", "plain")
    assert (await client.mcp(body, headers)).fault == (400, -32020)
    assert (await client.mcp(body, headers | {"Mcp-Param-Topic": "x"})).fault == (400, -32021)


@each("version", LEGACY)
async def test_a_tool_that_needs_a_capability_is_an_error_for_older_clients_and_rest(
    connect_once: Connect, backend: ScriptedBackend, version: str
) -> None:
    client = await connect_once("catalog.tools.plain.mcp=[sampling]")
    call = {"name": "plain", "arguments": {"topic": "x"}}
    older = (await client.legacy("tools/call", call, version=version)).result
    rest = await client.post("/mcp/tools/invoke", call)
    assert (older["isError"], rest.fault) == (True, (403, "capability_required"))
    for words in (older["content"][0]["text"], rest.error["message"]):
        assert "the capability sampling" in words
        assert "consent" not in words
    assert backend.requests == []
