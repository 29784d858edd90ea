"""Bodies that are no JSON, no JSON-RPC, or more than one reader would agree on (security.md R01 to R10).

Each is sent to MCP in both eras, and to REST, and none may reach the backend.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers, modern_headers, modern_request, request

pytestmark = pytest.mark.usefixtures("both_servers")

CALL = {"name": "echo", "arguments": {"value": "@"}}
MODERN_CALL = json.dumps(modern_request("tools/call", CALL)).encode()
LEGACY_CALL = json.dumps(request("tools/call", CALL)).encode()
REST_CALL = json.dumps(CALL).encode()
SURFACES = ("2026-07-28", *LEGACY, "rest")


def value(raw: bytes) -> Any:
    """A change: the call with these bytes as its argument."""
    return lambda body: body.replace(b'"@"', raw)


NOT_JSON = [
    pytest.param(lambda body: b"", id="empty"),
    pytest.param(lambda body: b"{", id="a brace"),
    pytest.param(lambda body: b"not json", id="prose"),
    pytest.param(lambda body: body[:-1], id="cut short"),
    pytest.param(lambda body: body + b"x", id="trailing garbage"),
    pytest.param(lambda body: body + body, id="twice"),
    pytest.param(lambda body: b"/* hello */" + body, id="comment"),
    pytest.param(lambda body: body[:-1] + b",}", id="trailing comma"),
    pytest.param(lambda body: body.replace(b'"', b"'"), id="single quotes"),
    pytest.param(lambda body: b"\xef\xbb\xbf" + body, id="byte order mark"),
    pytest.param(lambda body: body.decode().encode("utf-16"), id="UTF-16 with a mark"),
    pytest.param(lambda body: body.decode().encode("utf-16-le"), id="UTF-16"),
    pytest.param(lambda body: body.decode().encode("utf-32-le"), id="UTF-32"),
    pytest.param(value(b'"\xff\xfe"'), id="invalid UTF-8"),
    pytest.param(value(b'"\xed\xa0\x80"'), id="surrogate in UTF-8"),
    pytest.param(value(b'"\xc0\xaf"'), id="overlong UTF-8"),
    pytest.param(value(rb'"\ud800"'), id="lone high surrogate"),
    pytest.param(value(rb'"\udc00x"'), id="lone low surrogate"),
    pytest.param(value(rb'"\ud800A"'), id="half a pair"),
    pytest.param(value(b'"a\nb"'), id="raw newline in a string"),
    pytest.param(value(b"NaN"), id="NaN"),
    pytest.param(value(b"Infinity"), id="Infinity"),
    pytest.param(value(b"-Infinity"), id="-Infinity"),
    pytest.param(value(b"1e400"), id="beyond doubles"),
    pytest.param(value(b"01"), id="leading zero"),
    pytest.param(value(b"0x10"), id="hexadecimal"),
    pytest.param(value(b"1" * 5000), id="5000 digits"),
]

NOT_ONE_MESSAGE = [
    pytest.param(value(b"[" * 70 + b"]" * 70), id="depth 70"),
    pytest.param(value(b"[" * 100_000 + b"]" * 100_000), id="depth 100,000"),
    pytest.param(value(b"[" * 100_000), id="depth 100,000, not closed"),
    pytest.param(value(b"[" + b"{}," * 50_000 + b"{}]"), id="50,001 objects"),
    pytest.param(value(b'{"a":' * 70 + b"1" + b"}" * 70), id="objects, depth 70"),
    pytest.param(value(b'{"a":1,"a":2}'), id="argument member twice"),
    pytest.param(value(rb'{"a":1,"\u0061":2}'), id="twice, once escaped"),
    pytest.param(value(b'{":":1,":":2}'), id="colons for names"),
    pytest.param(lambda body: body.replace(b'"name"', b'"name": "add", "name"'), id="name twice"),
]


async def send(client: Client, surface: str, change: Any) -> Any:
    if surface == "rest":
        return await client.post("/mcp/tools/invoke", change(REST_CALL))
    if surface == MODERN:
        return await client.mcp(change(MODERN_CALL), modern_headers("tools/call", "echo"))
    return await client.mcp(change(LEGACY_CALL), legacy_headers(surface))


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_call_that_the_others_spoil_is_good(client: Client, backend: ScriptedBackend, surface: str) -> None:
    assert (await send(client, surface, value(b"[[]]"))).status == 200
    assert [call.params for call in backend.requests] == [{"value": [[]]}]


@pytest.mark.parametrize("surface", SURFACES)
@each("change", NOT_JSON)
async def test_what_is_no_json_is_a_parse_error_without_id(
    client: Client, backend: ScriptedBackend, surface: str, change: Any
) -> None:
    """JSON-RPC 2.0 §5.1 -32700, RFC 8259 §8.1 for the encoding; MCP's schema has no null id."""
    answer = await send(client, surface, change)
    if surface == "rest":
        assert (answer.status, answer.error["code"]) == (400, "invalid_json")
    else:
        assert answer.fault == (400, -32700)
        assert "id" not in answer.json
    assert backend.requests == []


@pytest.mark.parametrize("surface", SURFACES)
@each("change", NOT_ONE_MESSAGE)
async def test_what_readers_would_read_differently_is_an_invalid_request(
    client: Client, backend: ScriptedBackend, surface: str, change: Any
) -> None:
    """R04 and R05: nested beyond what every parser reads, or with a member twice, of which PHP takes another."""
    answer = await send(client, surface, change)
    assert answer.fault == (400, "invalid_request" if surface == "rest" else -32600)
    assert backend.requests == []


async def test_members_that_look_alike_within_strings_are_no_duplicates(client: Client) -> None:
    """What counts colons must not count those of strings, nor stumble over escaped quotes."""
    text = 'a ":" b \\" {"x":1,"x":2} [[[[ \\\\'
    called = await client.modern("tools/call", {"name": "echo", "arguments": {"value": {text: text}}})
    assert called.result["structuredContent"] == {text: text}


@pytest.mark.parametrize("era", [MODERN, *LEGACY])
@each(
    "change",
    [
        pytest.param({"jsonrpc": None}, id="jsonrpc null"),
        pytest.param({"jsonrpc": "1.0"}, id="jsonrpc 1.0"),
        pytest.param({"jsonrpc": 2.0}, id="jsonrpc a number"),
        pytest.param({"jsonrpc": ...}, id="no jsonrpc"),
        pytest.param({"method": ...}, id="no method"),
        pytest.param({"method": ""}, id="empty method"),
        pytest.param({"method": 5}, id="method a number"),
        pytest.param({"method": None}, id="method null"),
        pytest.param({"params": "x"}, id="params a string"),
        pytest.param({"params": 5}, id="params a number"),
        pytest.param({"params": None}, id="params null"),
    ],
)
async def test_what_is_no_json_rpc_request_is_invalid_with_its_id(
    client: Client, backend: ScriptedBackend, era: str, change: dict[str, Any]
) -> None:
    """JSON-RPC 2.0 §4 and §5.1; the id could be read, so it comes back."""
    body = (modern_request if era == MODERN else request)("tools/call", CALL, "mine") | change
    body = {name: member for name, member in body.items() if member is not ...}
    headers = modern_headers("tools/call", "echo") if era == MODERN else legacy_headers(era)
    answer = await client.mcp(body, headers)
    assert answer.fault == (400, -32600)
    assert answer.json["id"] == "mine"
    assert backend.requests == []


@each("body", ["5", '"x"', "null", "true"])
@pytest.mark.parametrize("era", [MODERN, *LEGACY])
async def test_json_that_is_no_object_is_invalid(client: Client, era: str, body: str) -> None:
    answer = await client.mcp(body.encode(), {"MCP-Protocol-Version": era})
    assert answer.fault == (400, -32600)
    assert "id" not in answer.json


@pytest.mark.parametrize("era", [MODERN, LEGACY[0]])
async def test_params_that_are_an_array_carry_no_name(client: Client, backend: ScriptedBackend, era: str) -> None:
    """JSON-RPC allows them, MCP's params are objects: no envelope in the one era, no tool name in the other."""
    answer = await client.mcp(request("tools/call", ["echo", {}]), {"MCP-Protocol-Version": era})
    assert answer.fault == ((400, -32602) if era == MODERN else (200, -32602))
    assert backend.requests == []
