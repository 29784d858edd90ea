"""What a person agrees to is what is sent, wherever one is asked. The text itself: tests/unit/test_consent.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.asking import question_on, respond, result_of, session_of
from tests.protocol.conftest import Connect
from tests.protocol.grouped import grouped
from tests.protocol.talk import CAPABILITIES, Client, request

pytestmark = pytest.mark.usefixtures("both_servers")

TEXT: Final = {"type": "string"}
PAY: Final = Rpc("pay", {"note": TEXT, "to": {}, "amount": {"type": "number"}, "via": {}, "by": {}})
PADDED: Final = {"note": "Lunch. " + " " * 1490, "to": {"a.b": ["zo\u200be\u202e", None, {}]}, "amount": "99999"}
SHOWN: Final = (
    r'to["a.b"][0]: "zo\u200be\u202e"', 'to["a.b"][1]: null', 'to["a.b"][2]: {}', "amount: 99999",
    "and 1 that the operator has set",
)  # fmt: skip
HIDDEN: Final = "via: {default: bank}, by: {default: sesame, hidden: true}"
TOOLS: Final = f"catalog.tools.pay={{confirm: true, coerce: true, arguments: {{{HIDDEN}}}}}"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [PAY]


def check(message: str, sent: Any) -> None:
    """What was shown, and then sent."""
    note = f'note: "Lunch. {" " * 113}" … 1337 characters are left out … "{" " * 40}"'
    lines = message.partition("With these arguments:\n")[2].split("\n")
    assert sorted(lines) == sorted((note, 'via: "bank"', *SHOWN))
    assert "sesame" not in message
    assert sent == {**PADDED, "amount": 99999, "via": "bank", "by": "sesame"}


async def agreed(client: Client, tool: str, arguments: Any) -> str:
    """The question to a client of 2026-07-28, which a person agreed to."""
    params = {"name": tool, "arguments": arguments, "_meta": {CAPABILITIES: {"elicitation": {}}}}
    asked = (await client.modern("tools/call", params)).result
    answers = {"confirm": {"action": "accept", "content": {}}}
    again = {**params, "requestState": asked["requestState"], "inputResponses": answers}
    assert (await client.modern("tools/call", again)).result["isError"] is False
    message: str = asked["inputRequests"]["confirm"]["params"]["message"]
    return message


@each("search", [False, True])
async def test_what_is_shown_is_what_is_sent(connect: Connect, backend: ScriptedBackend, search: bool) -> None:
    backend.requests.clear()
    client = await connect(TOOLS, f"catalog.search={search}".lower())
    call = ("call_tool", {"name": "pay", "arguments": PADDED}) if search else ("pay", PADDED)
    check(await agreed(client, *call), backend.requests[-1].params)


async def test_so_it_is_in_a_session(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(TOOLS)
    headers = await session_of(client)
    async with client.stream(request("tools/call", {"name": "pay", "arguments": PADDED}), headers) as stream:
        asked = await question_on(stream)
        assert backend.requests == []
        await respond(client, headers, asked["id"], result={"action": "accept", "content": {}})
        assert not (await result_of(stream))["isError"]
    check(asked["params"]["message"], backend.requests[-1].params)


async def test_so_it_is_at_a_group() -> None:
    async with grouped(f"services.crm.{TOOLS}", services={"crm": [PAY], "shop": [PAY]}) as it:
        message = await agreed(it.client(), "crm_pay", PADDED)
        assert message.startswith("Run pay of crm?\n")
        check(message, it.backends["crm"].requests[-1].params)


@each("path", ["/mcp/tools/invoke", "/mcp/tools/pay", "/jsonrpc"])
async def test_where_nobody_can_be_asked_the_call_is_refused_whatever_it_is(
    connect: Connect, backend: ScriptedBackend, path: str
) -> None:
    client = await connect(TOOLS)
    values = {**PADDED, "amount": 1}
    call = {"name": "pay", "arguments": values} if path.endswith("invoke") else request("pay", values)
    answer = await client.post(path, call)
    assert "consent" in answer.json["error"]["message"]
    assert backend.requests == []
