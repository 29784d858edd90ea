"""``backend.errors: passed``: a service's own code and data for clients of plain JSON-RPC, and for nobody else."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.behaviours import Body, error
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import LEGACY, MODERN, Answer, Client, request

pytestmark = pytest.mark.usefixtures("both_servers")


ROUTES: Final = ("/jsonrpc", "/mcp/tools/fail")
PASSED: Final = "backend.errors=passed"

on_both = each("route", ROUTES)


async def fail(client: Client, route: str) -> Answer:
    return await client.post(route, request("fail", {}, 9))


@on_both
async def test_the_services_own_code_message_and_data_are_passed_on(
    connect_once: Connect, backend: ScriptedBackend, route: str
) -> None:
    backend.on("fail", error(-32001, "The disk is full", {"free": 0, "disks": ["a", {"size": 1.5}], "ok": None}))
    answer = await fail(await connect_once(PASSED), route)
    assert answer.json == {
        "jsonrpc": "2.0",
        "id": 9,
        "error": {
            "code": -32001,
            "message": "The disk is full",
            "data": {"free": 0, "disks": ["a", {"size": 1.5}], "ok": None},
        },
    }


@on_both
async def test_without_being_asked_the_gateway_passes_no_code(
    connect_once: Connect, backend: ScriptedBackend, route: str
) -> None:
    backend.on("fail", error(-32001, "The disk is full", {"free": 7}))
    shown = (await fail(await connect_once(), route)).error
    assert (shown["code"], "data" in shown) == (-32603, False)


@on_both
async def test_what_is_passed_on_is_cleaned(connect_once: Connect, backend: ScriptedBackend, route: str) -> None:
    data = {
        "hint": f"ask {backend.url} with Bearer abcdef123456",
        "trace": ["at Some.Class(file.py:1)"],
        "Drupal\\node\\Entity": "why",
        "deep": [{"file": "/var/www/secret.php", "note": "in /var/www/secret.php"}],
    }
    backend.on("fail", error(7, f"no: {backend.url}", data))
    answer = await fail(await connect_once(PASSED), route)
    assert answer.error["code"] == 7
    assert answer.error["message"] == "no: [url]"
    assert answer.error["data"] == {
        "hint": "ask [url] with Bearer [redacted]",
        "[class]": "why",
        "deep": [{"note": "in [path]"}],
    }


@on_both
@each("data", ["x" * 100_000, ["y" * 60] * 100, {str(number): "z" * 30 for number in range(1000)}])
async def test_large_data_are_cut(connect_once: Connect, backend: ScriptedBackend, route: str, data: Any) -> None:
    backend.on("fail", error(7, "m" * 100_000, data))
    shown = (await fail(await connect_once(PASSED), route)).error
    assert len(shown["message"].encode()) <= 2048
    assert isinstance(shown["data"], str) or data == ["y" * 60] * 100
    assert len(str(shown["data"]).encode()) <= 2048


@on_both
@each("code", [b'"E1"', b"null", b"1.5", b"true"])
async def test_a_code_that_is_no_integer_is_ours(
    connect_once: Connect, backend: ScriptedBackend, route: str, code: bytes
) -> None:
    backend.on("fail", Body(b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":%b,"message":"no","data":[1]}}' % code))
    shown = (await fail(await connect_once(PASSED), route)).error
    assert shown == {"code": -32603, "message": "no: [1]"}


@on_both
async def test_an_error_without_words_gets_some(connect_once: Connect, backend: ScriptedBackend, route: str) -> None:
    backend.on("fail", Body(b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":5}}'))
    shown = (await fail(await connect_once(PASSED), route)).error
    assert shown == {"code": 5, "message": "The backend reported an error"}


@each("code", [-32602, -32600, -32700])
async def test_a_refusal_of_the_params_keeps_its_code(connect: Connect, backend: ScriptedBackend, code: int) -> None:
    backend.on("add", error(code, "Invalid params"))
    answer = await (await connect(PASSED)).post("/jsonrpc", request("add", {"a": 2, "b": 3}))
    assert (answer.error["code"], answer.error["message"]) == (code, "Invalid params")


async def test_a_denial_has_the_services_code_and_our_status(connect: Connect, backend: ScriptedBackend) -> None:
    backend.on("fail", error(-32600, "No", "Access Denied"))
    answer = await fail(await connect(PASSED), "/mcp/tools/fail")
    assert (answer.status, answer.error) == (403, {"code": -32600, "message": "No", "data": "Access Denied"})


@each("era", [MODERN, LEGACY[0]])
async def test_no_code_of_the_service_ever_reaches_mcp_or_rest(
    connect_once: Connect, backend: ScriptedBackend, era: str
) -> None:
    """MCP reserves the range that most services use (2026-07-28, basic/index "Error codes")."""
    backend.on("fail", error(-32042, "no", {"why": "so"}))
    client = await connect_once(PASSED)
    answer = await client.speak(era, "tools/call", {"name": "fail", "arguments": {}})
    assert answer.result["isError"] is True
    rest = await client.post("/mcp/tools/invoke", {"name": "fail"})
    assert rest.fault == (500, "execution_error")
    assert b"32042" not in answer.body + rest.body
