"""Texts in place of numbers, truth values and objects: models write them, and the service must not have to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, front
from tests.protocol.conftest import Connect
from tests.protocol.grouped import grouped
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import CAPABILITIES, JSON, Answer, Client, modern_headers, modern_request

pytestmark = pytest.mark.usefixtures("both_servers")


LIMIT: Final = {"type": "integer", "x-mcp-header": "Limit"}
NEAR: Final = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}}
BUY: Final = Rpc("buy", {"n": {"type": "integer"}, "price": {"type": "number"}, "near": NEAR})
FIND: Final = Rpc("find", {"limit": LIMIT, "where": {"type": "object"}, "text": {"type": "string"}})
READS: Final = "catalog.tools.find.annotations={readOnlyHint: true}"
ALLOWED: Final = "catalog.tools.find.coerce=true"
TEXTS: Final = {"limit": "5", "where": '{"year": "1999"}', "text": "7"}
WHOLE: Final = {"n": 5.0, "price": 5.0, "near": {"ids": [1.0, 2.0]}}
WRITTEN: Final = '{"n": 5, "price": 5.0, "near": {"ids": [1, 2]}}'
MEANT: Final = {"limit": 5, "where": {"year": "1999"}, "text": "7"}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [FIND, BUY]


@each("setting", [READS, ALLOWED])
async def test_the_service_gets_the_values_that_texts_spell(backend: ScriptedBackend, setting: str) -> None:
    backend.on("find", result([]))
    async with front(backend.url, setting) as gateway:
        for surface in ("legacy", "rest"):
            backend.requests.clear()
            assert not (await gateway.call(surface, "find", TEXTS)).failed
            assert [sent.params for sent in backend.requests] == [MEANT]


@each(
    "settings",
    [
        (),
        (READS, "catalog.tools.find.coerce=false"),
        ("catalog.tools.find.annotations={destructiveHint: true}",),
    ],
)
async def test_a_tool_that_may_change_something_gets_only_what_it_takes(
    backend: ScriptedBackend, settings: Sequence[str]
) -> None:
    backend.requests.clear()
    async with front(backend.url, *settings) as gateway:
        for surface in SURFACES:
            headers = {"Mcp-Param-Limit": "5"} if surface == "modern" else {}
            called = await gateway.call(surface, "find", TEXTS, headers)
            assert "limit" in called.message
    assert [sent.method for sent in backend.requests if sent.method == "find"] == []


async def test_json_rpc_passes_what_came(backend: ScriptedBackend) -> None:
    async with front(backend.url, ALLOWED) as gateway:
        for url in (f"{gateway.base}/jsonrpc", f"{gateway.mcp}/tools/find"):
            called = await gateway.post(url, {"jsonrpc": "2.0", "id": 1, "method": "find", "params": TEXTS})
            assert "limit" in called.body["error"]["message"]
    assert [sent for sent in backend.requests if sent.method == "find"] == []


async def send(client: Client, arguments: Any, mirrored: str, **more: Any) -> Answer:
    """Call find, with its limit mirrored into the header."""
    body = modern_request("tools/call", {"name": "find", "arguments": arguments, **more})
    headers = JSON | modern_headers("tools/call", "find") | {"Mcp-Param-Limit": mirrored}
    return await client.send("POST", "/mcp", json.dumps(body).encode(), headers)


async def test_headers_are_compared_with_the_arguments_as_they_were_sent(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(ALLOWED)
    backend.on("find", result([]))
    assert (await send(client, TEXTS, "5")).result["isError"] is False
    assert (await send(client, TEXTS, "5.0")).fault == (400, -32020)  # of the number 5 it would be a spelling
    assert (await send(client, MEANT, "5.0")).result["isError"] is False


async def test_a_person_agrees_to_the_values_and_the_state_is_bound_to_them(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect("catalog.tools.find={coerce: true, confirm: true}")
    backend.on("find", result([]))
    able: dict[str, Any] = {"_meta": {CAPABILITIES: {"elicitation": {}}}}
    asked = (await send(client, TEXTS, "5", **able)).result
    assert "\nlimit: 5\n" in asked["inputRequests"]["confirm"]["params"]["message"]
    accepted = {"inputResponses": {"confirm": {"action": "accept", "content": {}}}, **able}
    for other in (TEXTS | {"limit": "6"}, MEANT | {"limit": 6}):
        again = await send(client, other, "6", requestState=asked["requestState"], **accepted)
        assert again.fault == (200, -32602)
    backend.requests.clear()
    with_point = MEANT | {"limit": 5.0}  # JSON Schema's 5
    found = await send(client, with_point, "5", requestState=asked["requestState"], **accepted)
    assert found.result["isError"] is False
    assert [json.dumps(sent.params) for sent in backend.requests] == [json.dumps(MEANT)]


async def test_the_log_and_the_audit_say_how_many_texts_became_values(backend: ScriptedBackend, tmp_path: Path) -> None:
    backend.on("find", result([]))
    file = tmp_path / "audit.jsonl"
    audit = (f"telemetry.audit.to={file}", "telemetry.audit.arguments=all", "telemetry.audit.required=true")
    with capture_logs() as logs:
        async with front(backend.url, ALLOWED, *audit) as gateway:
            await gateway.call("rest", "buy", WHOLE)
            await gateway.call("rest", "find", TEXTS)
            await gateway.call("rest", "find", MEANT)
            await gateway.call("rest", "find", {"limit": "five"})
    lines = [line for line in map(json.loads, file.read_text().splitlines()) if line["event"] in ("ended", "call")]
    assert [line.get("coerced") for line in lines] == [None, 2, None, None]
    assert json.dumps(lines[0]["arguments"]) == WRITTEN  # the same numbers, so nothing was coerced
    assert lines[1]["arguments"] == MEANT
    assert [line.get("coerced") for line in logs if line["event"] == "request"] == [None, 2, None, None]


WHOLE: Final = {"n": 5.0, "price": 5.0, "near": {"ids": [1.0, 2.0]}}
WRITTEN: Final = '{"n": 5, "price": 5.0, "near": {"ids": [1, 2]}}'


@each("surface", [*SURFACES, "search", "group", "page", "tool", "jsonrpc"])
async def test_a_whole_number_is_sent_as_an_integer_where_the_schema_takes_no_number(surface: str) -> None:
    if surface in ("group", "search", "page"):  # which end at the same door
        at, by, name = ("all" if surface == "group" else "crm"), "rest", "crm.buy" if surface == "group" else "buy"
    else:
        at, by, name = "crm", surface, "buy"
    async with grouped("services.crm.catalog.search=true", services={"crm": [BUY]}) as it:
        client, service = it.client(at=at), it.backends["crm"]
        if surface == "page":
            shown = await client.post("/page/buy", {"arguments": WHOLE})
            assert json.dumps(json.loads(shown.body)["params"]) == WRITTEN
        elif surface == "search":
            await client.call(by, "call_tool", {"name": "buy", "arguments": WHOLE})
        else:
            await client.call({"modern": MODERN, "legacy": LEGACY[0]}.get(by, by), name, WHOLE)
        sent = [json.dumps(one.params) for one in service.requests if one.method == "buy"]
        assert sent == ([] if surface == "page" else [json.dumps(WHOLE) if by in ("tool", "jsonrpc") else WRITTEN])
