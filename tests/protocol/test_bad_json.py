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
from tests.tables import each_row_and

pytestmark = pytest.mark.usefixtures("both_servers")

CALL = {"name": "echo", "arguments": {"value": "@"}}
MODERN_CALL = json.dumps(modern_request("tools/call", CALL)).encode()
LEGACY_CALL = json.dumps(request("tools/call", CALL)).encode()
REST_CALL = json.dumps(CALL).encode()
SURFACES = ("2026-07-28", *LEGACY, "rest")


def value(raw: bytes) -> Any:
    """A change: the call with these bytes as its argument."""
    return lambda body: body.replace(b'"@"', raw)


NOT_JSON = {
    "empty": lambda body: b"",
    "a brace": lambda body: b"{",
    "prose": lambda body: b"not json",
    "cut short": lambda body: body[:-1],
    "trailing garbage": lambda body: body + b"x",
    "twice": lambda body: body + body,
    "comment": lambda body: b"/* hello */" + body,
    "trailing comma": lambda body: body[:-1] + b",}",
    "single quotes": lambda body: body.replace(b'"', b"'"),
    "byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "UTF-16 with a mark": lambda body: body.decode().encode("utf-16"),
    "UTF-16": lambda body: body.decode().encode("utf-16-le"),
    "UTF-32": lambda body: body.decode().encode("utf-32-le"),
    "invalid UTF-8": value(b'"\xff\xfe"'),
    "surrogate in UTF-8": value(b'"\xed\xa0\x80"'),
    "overlong UTF-8": value(b'"\xc0\xaf"'),
    "lone high surrogate": value(rb'"\ud800"'),
    "lone low surrogate": value(rb'"\udc00x"'),
    "half a pair": value(rb'"\ud800A"'),
    "raw newline in a string": value(b'"a\nb"'),
    "NaN": value(b"NaN"),
    "Infinity": value(b"Infinity"),
    "-Infinity": value(b"-Infinity"),
    "beyond doubles": value(b"1e400"),
    "leading zero": value(b"01"),
    "hexadecimal": value(b"0x10"),
    "5000 digits": value(b"1" * 5000),
}

NOT_ONE_MESSAGE = {
    "depth 70": value(b"[" * 70 + b"]" * 70),
    "depth 100,000": value(b"[" * 100_000 + b"]" * 100_000),
    "depth 100,000, not closed": value(b"[" * 100_000),
    "50,001 objects": value(b"[" + b"{}," * 50_000 + b"{}]"),
    "objects, depth 70": value(b'{"a":' * 70 + b"1" + b"}" * 70),
    "argument member twice": value(b'{"a":1,"a":2}'),
    "twice, once escaped": value(rb'{"a":1,"\u0061":2}'),
    "colons for names": value(b'{":":1,":":2}'),
    "name twice": lambda body: body.replace(b'"name"', b'"name": "add", "name"'),
}


async def send(client: Client, surface: str, change: Any) -> Any:
    if surface == "rest":
        return await client.post("/mcp/tools/invoke", change(REST_CALL))
    if surface == MODERN:
        return await client.mcp(change(MODERN_CALL), modern_headers("tools/call", "echo"))
    return await client.mcp(change(LEGACY_CALL), legacy_headers(surface))


@each("surface", SURFACES)
async def test_the_call_that_the_others_spoil_is_good(client: Client, backend: ScriptedBackend, surface: str) -> None:
    assert (await send(client, surface, value(b"[[]]"))).status == 200
    assert [call.params for call in backend.requests] == [{"value": [[]]}]


@each("surface", SURFACES)
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


@each("surface", SURFACES)
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


@each("era", [MODERN, *LEGACY])
@each_row_and({"no jsonrpc": {"jsonrpc": ...}, "no method": {"method": ...}})
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
@each("era", [MODERN, *LEGACY])
async def test_json_that_is_no_object_is_invalid(client: Client, era: str, body: str) -> None:
    answer = await client.mcp(body.encode(), {"MCP-Protocol-Version": era})
    assert answer.fault == (400, -32600)
    assert "id" not in answer.json


@each("era", [MODERN, LEGACY[0]])
async def test_params_that_are_an_array_carry_no_name(client: Client, backend: ScriptedBackend, era: str) -> None:
    """JSON-RPC allows them, MCP's params are objects: no envelope in the one era, no tool name in the other."""
    answer = await client.mcp(request("tools/call", ["echo", {}]), {"MCP-Protocol-Version": era})
    assert answer.fault == ((400, -32602) if era == MODERN else (200, -32602))
    assert backend.requests == []
