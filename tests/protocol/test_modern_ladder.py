"""2026-07-28: what is refused, in which order, with which status and code.

The rungs are of basic/index "Request metadata", basic/transports/streamable-http "Standard headers" (SEP-2243) and
basic/versioning. The order is the one that the official servers share.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import (
    CAPABILITIES,
    CLIENT,
    JSON,
    MODERN,
    Client,
    exchange,
    meta,
    modern_headers,
    modern_request,
    request,
    status_of,
)
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

UNSERVED = "2099-01-01"
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}


def broken_from(rung: int) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """A call that is wrong on this rung and on every later one, so that the answer tells which was looked at first."""
    asked = UNSERVED if rung <= 5 else MODERN
    method = "tools/none" if rung <= 6 else "tools/call"
    envelope = meta(asked)
    if rung <= 3:
        del envelope[CAPABILITIES]
    headers = [("MCP-Protocol-Version", MODERN if rung <= 4 else asked), ("Mcp-Method", method), ("Mcp-Name", "none")]
    if rung <= 2:
        headers.append(("Mcp-Method", method))
    body = request(method, {"name": "none", "_meta": envelope})
    if rung <= 1:
        body["jsonrpc"] = "1.0"
    return headers, body


@each_row
async def test_the_first_broken_rung_decides_the_answer(
    client: Client, backend: ScriptedBackend, rung: int, fault: tuple[int, int]
) -> None:
    headers, body = broken_from(rung)
    answer = await client.send("POST", "/mcp", json.dumps(body).encode(), [*JSON.items(), *headers])
    assert answer.fault == fault
    assert answer.json["id"] == 1
    assert backend.requests == []


async def test_a_request_without_a_broken_rung_is_answered(client: Client) -> None:
    headers, body = broken_from(8)
    headers[-1] = ("Mcp-Name", "add")
    body["params"] |= ADD
    answer = await client.send("POST", "/mcp", json.dumps(body).encode(), [*JSON.items(), *headers])
    assert answer.result["structuredContent"] == {"sum": 5}


async def test_a_version_mismatch_wins_over_an_unserved_version(client: Client) -> None:
    """streamable-http "Server validation": header and body are compared before the version is looked up."""
    body = request("tools/list", {"_meta": meta("v999.0.0")})
    assert (await client.mcp(body, modern_headers("tools/list"))).fault == (400, -32020)


async def test_an_unserved_version_is_told_which_are_served(client: Client) -> None:
    """basic/versioning: ``data`` has both members, and names versions of this era alone."""
    headers = {"MCP-Protocol-Version": UNSERVED, "Mcp-Method": "server/discover"}
    answer = await client.mcp(request("server/discover", {"_meta": meta(UNSERVED)}), headers)
    assert answer.fault == (400, -32022)
    assert answer.error["data"] == {"supported": [MODERN], "requested": UNSERVED}


@each("version", ["2025-11-25", "2024-11-05"])
async def test_a_legacy_version_in_the_envelope_is_unserved_there(client: Client, version: str) -> None:
    """The envelope makes a request modern, whatever it says, and only modern versions are served so."""
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": "tools/list"}
    answer = await client.mcp(request("tools/list", {"_meta": meta(version)}), headers)
    assert answer.fault == (400, -32022)
    assert answer.error["data"]["supported"] == [MODERN]


@each(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/list",
        "prompts/list",
        "completion/complete",
        "nope",
        "rpc.x",
    ],
)
async def test_a_method_that_this_era_does_not_offer_is_404(client: Client, method: str) -> None:
    """streamable-http: unknown method, or one whose capability is not advertised. Legacy names are no exception."""
    assert (await client.modern(method)).fault == (404, -32601)


@each_row
async def test_an_envelope_that_lacks_what_is_required_is_400(client: Client, envelope: Any) -> None:
    """basic/index "Request metadata": protocolVersion and clientCapabilities MUST be there."""
    answer = await client.mcp(request("tools/list", {"_meta": envelope}), modern_headers("tools/list"))
    assert answer.fault == (400, -32602)
    assert answer.json["id"] == 1


async def test_a_modern_header_without_params_is_400(client: Client) -> None:
    """The header alone makes a request modern, and there an envelope is required."""
    assert (await client.mcp(request("tools/list"), modern_headers("tools/list"))).fault == (400, -32602)


async def test_client_info_is_not_required_and_unknown_members_are_ignored(client: Client) -> None:
    """basic/index: clientInfo SHOULD be there; basic/versioning: unknown extensions are ignored."""
    envelope = meta() | {CAPABILITIES: {"extensions": {"x/y": {}}, "tasks": {}}, "io.example/other": [1]}
    del envelope[CLIENT]
    body = request("tools/list", {"_meta": envelope, "more": True})
    assert (await client.mcp(body, modern_headers("tools/list"))).result["tools"]


@each_row
async def test_a_header_that_does_not_say_what_the_body_says_is_refused(
    client: Client, backend: ScriptedBackend, change: dict[str, str | None]
) -> None:
    """streamable-http "Standard headers": missing, malformed and differing are one error, 400 -32020."""
    headers = {k: v for k, v in (modern_headers("tools/call", "add") | change).items() if v is not None}
    answer = await client.mcp(modern_request("tools/call", ADD), headers)
    assert answer.fault == (400, -32020)
    assert backend.requests == []


@each("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_a_standard_header_must_not_be_there_twice_even_if_both_agree(client: Client, name: str) -> None:
    """Duplicates are refused, since two readers may pick different ones."""
    headers = modern_headers("tools/call", "add")
    body = json.dumps(modern_request("tools/call", ADD)).encode()
    answer = await client.send("POST", "/mcp", body, [*JSON.items(), *headers.items(), (name, headers[name])])
    assert answer.fault == (400, -32020)


@each("spelling", ["add", "=?base64?YWRk?=", " \tadd  "])
async def test_a_name_may_be_base64_and_surrounded_by_blanks(client: Client, spelling: str) -> None:
    """streamable-http "Value encoding"; RFC 9110 §5.5 for the blanks."""
    body = json.dumps(modern_request("tools/call", ADD)).encode()
    headers = JSON | modern_headers("tools/call", spelling)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    assert status_of(await exchange(client.port, head.encode() + body)) == 200


async def test_a_name_beyond_ascii_travels_as_base64(client: Client) -> None:
    """The header agrees with the body, so what is left is that there is no such tool."""
    encoded = base64.b64encode("größe".encode()).decode()
    headers = modern_headers("tools/call", f"=?base64?{encoded}?=")
    assert (await client.mcp(modern_request("tools/call", {"name": "größe"}), headers)).fault == (200, -32602)


async def test_header_names_are_case_insensitive(client: Client) -> None:
    headers = {name.upper(): value for name, value in modern_headers("tools/list").items()}
    assert (await client.mcp(modern_request("tools/list"), headers)).result["tools"]


async def test_parameter_headers_that_no_schema_asks_for_are_ignored(client: Client) -> None:
    headers = modern_headers("tools/call", "add") | {"Mcp-Param-Region": "=?base64?broken"}
    assert (await client.mcp(modern_request("tools/call", ADD), headers)).result["isError"] is False


@each("method", ["tools/call", "notifications/cancelled", "notifications/initialized"])
@each("headers", {"bare": {}, "wrong method": {"Mcp-Method": "wrong"}})
async def test_a_notification_is_accepted_without_header_rules_and_not_executed(
    client: Client, backend: ScriptedBackend, method: str, headers: dict[str, str]
) -> None:
    """streamable-http: 202 without a body; the npm client sends notifications/cancelled without Mcp-Method."""
    body = modern_request(method, ADD)
    del body["id"]
    answer = await client.mcp(body, {"MCP-Protocol-Version": MODERN} | headers)
    assert (answer.status, answer.body) == (202, b"")
    assert backend.requests == []


@each(
    "body",
    {
        "batch": [modern_request("tools/list")],
        "empty batch": [],
        "response": {"jsonrpc": "2.0", "id": 1, "result": {}},
        "error response": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    },
)
async def test_batches_and_responses_are_refused(client: Client, body: Any) -> None:
    """streamable-http "Sending messages": one request or notification, nothing else."""
    answer = await client.mcp(body, {"MCP-Protocol-Version": MODERN})
    assert answer.fault == (400, -32600)


async def test_a_session_id_is_neither_read_nor_given(client: Client) -> None:
    """streamable-http: modern traffic knows no sessions, and Last-Event-ID means nothing."""
    headers = modern_headers("tools/list") | {"Mcp-Session-Id": "of-another-time", "Last-Event-ID": "7"}
    answer = await client.mcp(modern_request("tools/list"), headers)
    assert answer.result["tools"]
    assert "Mcp-Session-Id" not in answer.headers


@each("verb", ["GET", "DELETE"])
@each("version", [MODERN, "2024-10-07", "draft", ""])
async def test_only_post_is_allowed(client: Client, verb: str, version: str) -> None:
    """streamable-http: 405 with Allow; the older eras have GET and DELETE as well."""
    headers = {"Accept": "text/event-stream", "MCP-Protocol-Version": version}
    answer = await client.send(verb, "/mcp", headers=headers)
    assert answer.status == 405
    assert answer.headers["Allow"] == "POST"
    assert answer.error["code"] == 405
