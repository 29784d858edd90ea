"""Arguments on their way to the backend and results on their way back (security.md R06, R15 to R17, H22)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.each import each
from tests.fault.behaviours import Body
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import METHODS
from tests.protocol.conftest import Connect
from tests.protocol.talk import JSON, LEGACY, MODERN, Client, meta, modern_headers, modern_request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

ERAS = (MODERN, *LEGACY)

WIDE = Rpc("wide", {f"p{index:02}": {"type": "integer"} for index in range(30)})
COUNT = Rpc("count", {"n": {"type": "integer", "minimum": -(2**200)}}, {"type": "integer"}, run=lambda n: n)
ODD_NAMES = ("__proto__", "constructor", "toString", "_meta", "Mcp_Name", "jsonrpc", "id")
ODD = Rpc("odd", {name: {"type": "string"} for name in ODD_NAMES}, {"type": "object"})

INTEGERS = [0, -1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64 - 1, 2**64, 2**128 + 1, 10**100]


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (*METHODS, WIDE, COUNT, ODD)


@each("era", ERAS)
@each_row
async def test_arguments_that_break_the_schema_do_not_reach_the_backend(
    client: Client, backend: ScriptedBackend, era: str, arguments: dict[str, Any]
) -> None:
    """server/tools "Error handling" (SEP-1303): a result with isError, so that the model can mend its call."""
    called = (await client.speak(era, "tools/call", {"name": "add", "arguments": arguments})).result
    assert called["isError"] is True
    assert called["content"][0]["text"].startswith("Invalid arguments: ")
    assert "structuredContent" not in called
    assert backend.requests == []


async def test_up_to_twenty_faults_are_named_with_their_paths(client: Client, backend: ScriptedBackend) -> None:
    """R15: all paths at once, but not without end."""
    arguments = dict.fromkeys(WIDE.params, "x")
    called = (await client.modern("tools/call", {"name": "wide", "arguments": arguments})).result
    faults = called["content"][0]["text"].removeprefix("Invalid arguments: ").split("; ")
    assert called["isError"] is True
    assert len(faults) == 20
    assert {fault.partition(":")[0] for fault in faults} < set(WIDE.params)
    assert backend.requests == []


@each("era", ERAS)
@each("name", ["count", "echo"])
@each("integer", INTEGERS)
async def test_integers_are_exact_in_both_directions(
    client: Client, backend: ScriptedBackend, era: str, name: str, integer: int
) -> None:
    """R06: digit for digit, with a schema to pass and without one."""
    backend.requests.clear()
    argument = "n" if name == "count" else "value"
    called = await client.speak(era, "tools/call", {"name": name, "arguments": {argument: integer}})
    digits = str(integer).encode()
    assert b'"params":{"%b":%b}' % (argument.encode(), digits) in backend.requests[-1].body
    assert called.result["isError"] is False
    assert b'"text":"%b"' % digits in called.body
    if era == MODERN:
        assert b'"structuredContent":%b,' % digits in called.body


@each("integer", INTEGERS)
async def test_integers_are_exact_over_rest(client: Client, backend: ScriptedBackend, integer: int) -> None:
    backend.requests.clear()
    digits = str(integer).encode()
    invoked = await client.post("/mcp/tools/invoke", b'{"name":"count","arguments":{"n":%b}}' % digits)
    assert invoked.body == b'{"result":%b}' % digits
    call = b'{"jsonrpc":"2.0","id":%b,"method":"count","params":[%b]}' % (digits, digits)
    called = await client.post("/mcp/tools/count", call)
    assert called.body == b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (digits, digits)
    assert [b'"params":{"n":%b}' % digits in request.body for request in backend.requests] == [True, True]


@each("literal", ["1.0", "1.5", "0.1", "-1.5e-7", "1e22"])
async def test_floats_keep_their_value_and_stay_floats(client: Client, backend: ScriptedBackend, literal: str) -> None:
    backend.requests.clear()
    backend.on("echo", Body(b'{"jsonrpc":"2.0","id":@ID@,"result":%b}' % literal.encode()))
    called = await client.post("/mcp/tools/invoke", b'{"name":"echo","arguments":{"value":%b}}' % literal.encode())
    for number in (called.json["result"], backend.requests[-1].params["value"]):
        assert (type(number), number) == (float, float(literal))


@each("text", ["☃ größe 𝄞", "\u0000\u001f\u007f", "\u2028</script>", 'quote " back \\ slash', ""])
async def test_text_is_the_same_on_the_other_side(client: Client, backend: ScriptedBackend, text: str) -> None:
    backend.requests.clear()
    called = await client.modern("tools/call", {"name": "echo", "arguments": {"value": {text: text}}})
    assert called.result["structuredContent"] == {text: text}
    assert backend.requests[-1].params == {"value": {text: text}}


@each("era", ERAS)
async def test_names_with_a_meaning_elsewhere_are_plain_argument_names(
    client: Client, backend: ScriptedBackend, era: str
) -> None:
    """R16: ``__proto__`` and its like are data."""
    arguments = {name: f"my {name}" for name in ODD_NAMES}
    called = (await client.speak(era, "tools/call", {"name": "odd", "arguments": arguments})).result
    assert json.loads(called["content"][0]["text"]) == arguments
    assert backend.requests[-1].params == arguments


async def test_a_name_with_a_meaning_elsewhere_is_checked_like_any_other(
    client: Client, backend: ScriptedBackend
) -> None:
    for arguments in ({"a": 1, "b": 2, "__proto__": {"admin": True}}, {"__proto__": {"a": 1, "b": 2}}):
        called = await client.post("/mcp/tools/invoke", {"name": "add", "arguments": arguments})
        assert called.fault == (400, "invalid_arguments")
    assert backend.requests == []


async def test_what_a_client_says_about_itself_does_not_reach_the_backend(
    client: Client, backend: ScriptedBackend
) -> None:
    """R17 and H22: no ``_meta``, and of the headers none but our own; with auth off no token either."""
    mine = {
        "Authorization": "Bearer secret-of-the-caller",
        "Cookie": "sid=secret-of-the-caller",
        "X-Forwarded-User": "secret-of-the-caller",
        "X_Forwarded_User": "secret-of-the-caller",
        "Remote-User": "secret-of-the-caller",
        "X-Original-URL": "/secret-of-the-caller",
        "X-HTTP-Method-Override": "DELETE",
        "Mcp-Param-X": "secret-of-the-caller",
        "Connection": "keep-alive, Content-Type",
    }
    call = {"name": "add", "arguments": {"a": 2, "b": 3}}
    body = modern_request("tools/call", call)
    body["params"]["_meta"] = meta() | {"traceparent": "secret-of-the-caller", "x/y": "secret-of-the-caller"}
    answer = await client.mcp(body, modern_headers("tools/call", "add") | mine)
    assert answer.result["structuredContent"] == {"sum": 5}
    (request,) = backend.requests
    assert request.verb == "POST"
    assert request.path == "/jsonrpc"
    assert "secret-of-the-caller" not in repr((request.headers, request.body))
    assert request.json.keys() == {"jsonrpc", "id", "method", "params"}
    assert request.headers["Content-Type"] == JSON["Content-Type"]
    assert request.headers["Host"] == f"127.0.0.1:{backend.port}"


@each("era", ERAS)
async def test_a_tool_answers_to_the_name_of_its_method_as_well(
    connect: Connect, backend: ScriptedBackend, era: str
) -> None:
    """A call may use the raw method name where it is unambiguous."""
    client = await connect("catalog.tools.add.name=sum")
    for name in ("sum", "add"):
        called = await client.speak(era, "tools/call", {"name": name, "arguments": {"a": 2, "b": 3}})
        assert called.result["isError"] is False
    assert backend.calls("add") == 2
    assert "sum" in {tool["name"] for tool in (await client.speak(era, "tools/list")).result["tools"]}
