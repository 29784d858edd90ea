"""Large results of tools without an output schema: passed on as they are written, on every way to call a tool, and
refused for what small ones are refused for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import pytest
from aiohttp import ClientSession

from gateway.backend.transport import UNKNOWN
from tests.each import each
from tests.fault.behaviours import Body
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers, modern_headers, modern_request, request

pytestmark = pytest.mark.usefixtures("both_servers")

NO_JSON: Final = "The backend did not answer with JSON ("
MENDED: Final = "The backend's answer is no sound JSON: "
TOO_DEEP: Final = f"The backend's answer is not a JSON-RPC response: nested too deeply; {UNKNOWN}"
PAD: Final = "pad " * 5000
SECRET: Final = "s3cret-0f-the-operator"
METHODS: Final = (
    Rpc("plain"),
    Rpc("object", result={"type": "object"}),
    Rpc("array", result={"type": "array", "title": "All of them"}),
    Rpc("schema", result={"type": "object", "properties": {"part": {"type": "integer"}}}),
)
BAD: Final = {
    "too many levels": b"[" * 256 + b"]" * 256,
    "too many levels among texts with brackets": b'["]",' * 256 + b"1" + b',"["]' * 256,
    "too many levels among texts with quotes": b'["]\\"",' * 256 + b"1" + b',"\\"["]' * 256,
    "a number beyond all floats": b"1e400",
    "a fraction beyond all floats": b"1" * 310 + b".5",
    "an integer of too many digits": b"1" * 4301,
    "bytes that are not UTF-8": b'"\xff"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a lone surrogate": rb'"\ud800 x"',
    "NaN": b"NaN",
    "a line break in a text": b'"\n"',
    "a missing bracket": b'{"a":1',
}


class Gateway(NamedTuple):
    front: Front
    backend: ScriptedBackend

    def answer(self, result: bytes) -> None:
        self.backend.default = Body(b'{"jsonrpc":"2.0","id":@ID@,"result":' + result + b"}")


def large(part: bytes, pad: str = PAD) -> bytes:
    return b'{"pad":"%b","part":%b}' % (pad.encode(), part)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    credentials = f"backend.credentials={{mode: static, send: {{headers: {{X-Key: {SECRET}}}}}}}"
    async with ScriptedBackend(METHODS) as backend, front(backend.url, credentials) as running:
        yield Gateway(running, backend)


@each("surface", SURFACES)
@each("method", ["plain", "object"])
async def test_a_large_result_is_the_services_own_in_text_and_structure(
    gateway: Gateway, surface: Surface, method: str
) -> None:
    sent = large('{"name":"Ünï ☃","n":[0.12345678901234567890,1.50,1E5,-0.0],"q":"a \\"b\\" \\n c"}'.encode())
    gateway.answer(sent)
    called = await gateway.front.call(surface, method, {})
    assert called.value == json.loads(sent)
    assert sent.decode() in called.text
    if surface != "rest":
        assert called.result["content"] == [{"type": "text", "text": sent.decode()}]


@each("surface", SURFACES)
@each("method", ["plain", "array"])
async def test_a_large_array_is_the_services_own(gateway: Gateway, surface: Surface, method: str) -> None:
    gateway.answer(b"[" + large(b"1.50") + b"]")
    called = await gateway.front.call(surface, method, {})
    assert called.value == [{"pad": PAD, "part": 1.5}]
    assert ":1.50}]" in called.text
    if surface == "legacy":  # which has structured content for objects alone
        assert called.result.get("structuredContent") == (None if method == "plain" else {"result": called.value})


async def test_on_jsonrpc_the_result_is_the_services_own(gateway: Gateway) -> None:
    gateway.answer(large(b"[1.50]"))
    message = {"jsonrpc": "2.0", "id": 1, "method": "plain"}
    one = await gateway.front.post(f"{gateway.front.base}/jsonrpc", message)
    assert one.text == '{"jsonrpc":"2.0","id":1,"result":' + large(b"[1.50]").decode() + "}"
    two = await gateway.front.post(f"{gateway.front.base}/jsonrpc", [message, message])
    assert two.text == f"[{one.text},{one.text}]"


@each("part", BAD)
@each("method", ["plain", "object", "schema"])
async def test_a_large_result_that_is_no_sound_json_is_mended_or_a_failure_and_on_jsonrpc_always_one(
    gateway: Gateway, part: bytes, method: str
) -> None:
    is_deep, is_cut = part.count(b"[") > 200, part == BAD["a missing bracket"]
    expected = TOO_DEEP if is_deep else NO_JSON if is_cut else MENDED
    gateway.answer(large(part))
    for surface in SURFACES:
        called = await gateway.front.call(surface, method, {})
        if is_deep or is_cut:
            assert called.message.startswith(expected)
        elif method != "schema":  # which the mended value breaks
            assert called.value["pad"] == PAD
    called = await gateway.front.post(f"{gateway.front.base}/jsonrpc", {"jsonrpc": "2.0", "id": 1, "method": method})
    assert called.body["error"]["message"].startswith(expected)
    assert called.body["error"]["message"].endswith(UNKNOWN)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_large_result_of_another_type_breaks_a_schema_that_names_one(
    gateway: Gateway, surface: Surface
) -> None:
    for method, result in (("object", b"[" + large(b"1") + b"]"), ("array", large(b"1"))):
        gateway.answer(result)
        called = await gateway.front.call(surface, method, {})
        assert "its result breaks the listed output schema" in called.message
        assert result.decode() in called.message


@each("surface", SURFACES)
async def test_a_large_result_is_checked_against_a_schema_that_says_more(surface: Surface) -> None:
    async with ScriptedBackend(METHODS) as backend, front(backend.url) as fresh:
        backend.default = Body(b'{"jsonrpc":"2.0","id":@ID@,"result":' + large(b'"x"') + b"}")
        assert 'is not of type "integer"' in (await fresh.call(surface, "schema", {})).message


@each("surface", SURFACES)
async def test_of_two_members_of_one_name_the_last_counts_where_a_schema_is_checked(
    gateway: Gateway, surface: Surface
) -> None:
    """What was checked is what is passed on. Where nothing is checked, the client reads what the service wrote."""
    gateway.answer(large(b'"x","part":2'))
    assert (await gateway.front.call(surface, "schema", {})).text.count("part") == (1 if surface == "rest" else 2)
    called = await gateway.front.call(surface, "plain", {})
    assert called.value == {"pad": PAD, "part": 2}
    assert called.text.count("part") == (2 if surface == "rest" else 4)


@each("surface", SURFACES)
async def test_a_secret_is_removed_from_a_large_result(gateway: Gateway, surface: Surface) -> None:
    gateway.answer(large(f'"the key is {SECRET}"'.encode()))
    assert (await gateway.front.call(surface, "plain", {})).value["part"] == "the key is [redacted]"


@each("era", [MODERN, LEGACY[0]])
@each("line", [b"\n", b"\r\n", b"\r"])
async def test_a_large_result_on_several_lines_is_one_event(gateway: Gateway, era: str, line: bytes) -> None:
    gateway.answer(large(b"[1,%b2]%b" % (line, line)))
    params = {"name": "plain", "arguments": {}, "_meta": {"progressToken": 7}}
    is_modern = era == MODERN
    body = modern_request("tools/call", params) if is_modern else request("tools/call", params)
    headers = modern_headers("tools/call", "plain") if is_modern else legacy_headers(era)
    async with ClientSession() as session:
        answer = await Client(session, gateway.front.port).mcp(body, headers)
    assert answer.messages[0]["method"] == "notifications/progress"
    assert answer.messages[-1]["result"]["structuredContent"] == {"pad": PAD, "part": [1, 2]}
