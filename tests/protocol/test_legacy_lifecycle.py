"""2024-11-05 to 2025-11-25: initialize, ping, notifications, batches, and errors on HTTP 200."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers, request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

LATEST = LEGACY[0]
PING = request("ping")
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}
BATCHES = ("2025-03-26", None)


def hello(version: object) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "probe", "version": "1.0"}}


@each("version", LEGACY)
async def test_initialize_echoes_a_revision_that_is_served(client: Client, version: str) -> None:
    """2025-11-25 basic/lifecycle "Version negotiation": the server MUST answer with the same version."""
    answer = await client.legacy("initialize", hello(version), version=None)
    title = {"title": "Scripted backend"} if version in ("2025-11-25", "2025-06-18") else {}
    assert answer.result == {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "Scripted backend", "version": "1.0.0"} | title,
    }


@each("version", [MODERN, "2024-10-07", "1.0", "", "v999", None, 5, [LATEST], {}])
async def test_initialize_answers_any_other_version_with_the_newest_legacy_one(client: Client, version: Any) -> None:
    """basic/lifecycle: another one that it supports, the latest; never an error, and never one without initialize."""
    answer = await client.legacy("initialize", hello(version), version=None)
    assert answer.result["protocolVersion"] == LATEST


async def test_initialize_without_params_is_answered_too(client: Client) -> None:
    assert (await client.legacy("initialize", version=None)).result["protocolVersion"] == LATEST


@each("header", LEGACY)
async def test_initialize_negotiates_by_its_body_not_by_a_header(client: Client, header: str) -> None:
    """A client that initializes anew may still send the header of its last session."""
    answer = await client.legacy("initialize", hello("2025-06-18"), version=header)
    assert answer.result["protocolVersion"] == "2025-06-18"


async def test_initialize_does_not_depend_on_the_backend(connect: Any, backend: ScriptedBackend) -> None:
    client = await connect(url=backend.refused_url)
    assert (await client.legacy("initialize", hello(LATEST), version=None)).result["protocolVersion"] == LATEST


@each("version", [*LEGACY, None])
async def test_ping_is_answered_with_an_empty_result(client: Client, version: str | None) -> None:
    """basic/utilities/ping: an empty result, without the modern era's resultType."""
    assert (await client.legacy("ping", version=version)).result == {}


@each("version", [*LEGACY, None])
@each_row
async def test_notifications_and_responses_are_accepted_and_execute_nothing(
    client: Client, backend: ScriptedBackend, version: str | None, message: dict[str, Any]
) -> None:
    """2025-11-25 basic/transports "Sending messages", 4: 202 without a body."""
    answer = await client.mcp(message, legacy_headers(version))
    assert (answer.status, answer.body) == (202, b"")
    assert backend.requests == []


@each("version", [*LEGACY, None])
@each("method", ["server/discover", "resources/list", "logging/setLevel", "tools/List", "nope"])
async def test_an_unknown_method_is_an_error_on_200(client: Client, version: str | None, method: str) -> None:
    """2025-11-25 basic/transports "Session management": a 404 would mean the end of a session."""
    answer = await client.legacy(method, {}, version=version)
    assert answer.fault == (200, -32601)
    assert answer.json["id"] == 1


@each("version", [*LEGACY, None])
@each_row
async def test_invalid_params_are_an_error_on_200(
    client: Client, backend: ScriptedBackend, version: str | None, method: str, params: Any
) -> None:
    """server/tools "Error handling" and server/utilities/pagination of each revision: -32602."""
    assert (await client.legacy(method, params, version=version)).fault == (200, -32602)
    assert backend.requests == []


@each("version", ["2024-10-07", "2026-01-01", "draft", "", "2025-11-25,2025-06-18"])
@each("method", ["ping", "tools/list", "initialize"])
async def test_an_unsupported_version_header_is_400(client: Client, version: str, method: str) -> None:
    """2025-11-25 basic/transports "Protocol Version Header": invalid or unsupported MUST be 400."""
    answer = await client.legacy(method, hello(LATEST), version=version)
    assert answer.status == 400
    assert "result" not in answer.json


@each("version", LEGACY)
async def test_the_standard_headers_of_the_other_era_are_not_required_and_not_compared(
    client: Client, version: str
) -> None:
    """2026-07-28 streamable-http "Standard headers" MUST NOT be asked of older revisions."""
    headers = legacy_headers(version) | {"Mcp-Method": "something/else", "Mcp-Name": "=?base64?broken?="}
    answer = await client.mcp(request("tools/call", ADD), headers)
    assert answer.result["isError"] is False


@each("version", LEGACY)
async def test_an_envelope_makes_a_request_modern_whatever_the_header_says(client: Client, version: str) -> None:
    """2026-07-28 basic/versioning: the body tells the era, and then the header disagrees with it."""
    body = request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}})
    assert (await client.mcp(body, legacy_headers(version))).fault == (400, -32602)
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {}
    assert (await client.mcp(body, legacy_headers(version))).fault == (400, -32020)
    assert (await client.mcp(body)).fault == (400, -32020)


@each("version", LEGACY)
async def test_other_metadata_does_not_make_a_request_modern(client: Client, version: str) -> None:
    answer = await client.legacy("tools/list", {"_meta": {"progressToken": 1}}, version=version)
    assert answer.result["tools"]


@each("version", BATCHES)
async def test_a_batch_is_answered_item_by_item_in_order(
    client: Client, backend: ScriptedBackend, version: str | None
) -> None:
    """2025-03-26 basic "Batching": servers MUST accept batches; basic/transports: an array of responses."""
    batch = [PING, INITIALIZED, request("tools/call", ADD, "two"), request("nope", id=3), {"jsonrpc": "2.0", "id": 4}]
    answer = await client.mcp(batch, legacy_headers(version))
    assert answer.status == 200
    first, second, third, fourth = answer.json
    assert first == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (second["id"], second["result"]["isError"]) == ("two", False)
    assert (third["id"], third["error"]["code"]) == (3, -32601)
    assert (fourth["id"], fourth["error"]["code"]) == (4, -32600)
    assert backend.calls("add") == 1


@each("version", BATCHES)
async def test_a_batch_that_asks_nothing_is_202(client: Client, version: str | None) -> None:
    """2025-03-26 basic/transports: solely notifications or responses."""
    batch = [INITIALIZED, {"jsonrpc": "2.0", "id": 1, "result": {}}]
    answer = await client.mcp(batch, legacy_headers(version))
    assert (answer.status, answer.body) == (202, b"")


@each("version", BATCHES)
@each(
    "batch",
    {
        "empty": [],
        "too long": [PING] * 51,
        "with initialize": [PING, request("initialize", hello(LATEST), 2)],
    },
)
async def test_a_batch_that_is_none_is_refused_as_a_whole(
    client: Client, version: str | None, batch: list[Any]
) -> None:
    """JSON-RPC 2.0 §6: empty is invalid. 2025-03-26 basic/lifecycle: initialize MUST NOT be part of a batch."""
    answer = await client.mcp(batch, legacy_headers(version))
    assert answer.fault == (400, -32600)
    assert "id" not in answer.json


async def test_what_is_no_message_within_a_batch_is_an_error_of_its_own(client: Client) -> None:
    """JSON-RPC 2.0 §6, rpc call with an invalid batch (but not empty)."""
    answer = await client.mcp([1, [PING], PING])
    assert [item.get("error", {}).get("code") for item in answer.json] == [-32600, -32600, None]
    assert ["id" in item for item in answer.json] == [False, False, True]


@each("version", ["2025-11-25", "2025-06-18", "2024-11-05"])
async def test_a_batch_is_refused_at_the_other_revisions(
    client: Client, backend: ScriptedBackend, version: str
) -> None:
    """2025-06-18 changelog: batching is removed; 2024-11-05 never asked servers to accept it."""
    answer = await client.mcp([request("tools/call", ADD)], legacy_headers(version))
    assert answer.fault == (400, -32600)
    assert backend.requests == []
