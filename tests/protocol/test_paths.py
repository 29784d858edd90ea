"""Paths that almost are ours (security.md H08, H18 to H20): 404 as JSON, and nothing of them reaches the backend."""

from __future__ import annotations

import json

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import Client, exchange, request, status_of

pytestmark = pytest.mark.usefixtures("both_servers")

ADD = json.dumps(request("add", [2, 3])).encode()
CALL = json.dumps(request("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})).encode()


async def post(client: Client, target: str | bytes, body: bytes) -> tuple[int, dict[str, object]]:
    """POST to a target that goes out byte by byte; status and JSON of the answer."""
    raw = target if isinstance(target, bytes) else target.encode()
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    answer = await exchange(client.port, head % (raw, len(body)) + body)
    status, (_, _, payload) = status_of(answer), answer.partition(b"\r\n\r\n")
    assert b"application/json" in answer.partition(b"\r\n\r\n")[0]
    return status, json.loads(payload)


@each(
    "path",
    [
        "//mcp",
        "/mcp/",
        "/mcp//",
        "/MCP",
        "/Mcp",
        "/./mcp",
        "/x/../mcp",
        "/%2e/mcp",
        "/mcp;a",
        "/mcp%00",
        "/mcp%2f",
        "/mcp%20",
        "/mcp/tools",
        "/mcp/tools/",
        "/mcp/tools//add",
        "/mcp/tools/add/",
        "/mcp/tools/add/x",
        "/MCP/tools/add",
        "/mcp/Tools/add",
        "//mcp/tools/add",
        "/jsonrpc/..",
        "/livez",
        "/readyz",
        "/refresh",
        "/status",
        "/.well-known/mcp.json",
        "/metrics",
        "/admin",
        "/.git/config",
    ],
)
async def test_a_path_that_is_not_ours_is_404(client: Client, backend: ScriptedBackend, path: str) -> None:
    """H19: what a proxy in front allows by path must not be reachable by another spelling. Admin paths are not here."""
    for body in (CALL, ADD):
        status, answer = await post(client, path, body)
        assert (status, answer["error"]["code"]) == (404, "not_found")  # type: ignore[index]
    assert backend.requests == []


@each(
    "segment",
    [
        "nope",
        "Add",
        "add%20",
        "add%00",
        "add;x",
        "%2e%2e",
        "..%2fadmin",
        "%2e%2e%2fadmin",
        "..%5cadmin",
        "add%2f..%2fadmin",
        "add%0d%0aX-Injected:%201",
        "%0d%0a%0d%0aGET%20%2f",
        "%ff",
        "%ed%a0%80",
        "%c0%ae",
        "add~",
        "add?x=1&name=echo",
        "a" * 3000,
    ],
)
async def test_a_tool_path_that_names_no_tool_is_404(client: Client, backend: ScriptedBackend, segment: str) -> None:
    """H20: the segment is looked up and goes nowhere else: into no URL, no header, no call."""
    path, _, query = segment.partition("?")
    target = f"/mcp/tools/{'nope' if query else path}" + (f"?{query}" if query else "")
    status, answer = await post(client, target, ADD)
    assert (status, answer["error"]["code"]) == (404, -32601)  # type: ignore[index]
    assert backend.requests == []


@each("target", [b"/mcp/tools/\xff", b"/mcp/tools/\xed\xa0\x80", b"/mcp/tools/gr\xc3\xb6\xc3\x9fe"])
async def test_raw_bytes_in_a_path_are_no_tool(client: Client, backend: ScriptedBackend, target: bytes) -> None:
    """RFC 9112 §3.2 has ASCII there; what comes anyway is refused and not a reason to break."""
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    raw = await exchange(client.port, head % (target, len(ADD)) + ADD)
    assert status_of(raw) in (400, 404)
    assert backend.requests == []


@each("name", ["%0d%0aX-Injected:%201", "%ff", "%ed%a0%80", "..%2fadmin", "%00", "\xff"])
async def test_describing_what_is_no_tool_is_404(client: Client, backend: ScriptedBackend, name: str) -> None:
    head = b"GET /mcp/tools/describe?name=%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    raw = await exchange(client.port, head % name.encode("latin-1"))
    assert status_of(raw) in ((400, 404) if name == "\xff" else (404,))
    assert b"x-injected: 1" not in raw.lower().partition(b"\r\n\r\n")[0]
    assert backend.requests == []


async def test_an_escaped_letter_is_the_same_path(client: Client) -> None:
    """RFC 3986 §6.2.2.2; nothing of ours may hang on the raw spelling, and nothing does."""
    assert (await post(client, "/%6dcp", CALL))[0] == 200
    assert (await post(client, "/mcp/tools/%61dd", ADD))[0] == 200


@each("verb", ["PUT", "PATCH", "TRACE", "OPTIONS"])
@each(
    ("path", "allowed"),
    [
        ("/mcp", {"DELETE", "GET", "POST"}),
        ("/mcp/tools/invoke", {"POST"}),
        ("/mcp/tools/add", {"GET", "HEAD", "POST"}),
    ],
)
async def test_another_verb_is_405_with_what_is_allowed(
    client: Client, backend: ScriptedBackend, verb: str, path: str, allowed: set[str]
) -> None:
    """H18, RFC 9110 §15.5.6."""
    answer = await client.send(verb, path)
    assert answer.status == 405
    assert set(answer.headers["Allow"].split(", ")) == allowed
    assert backend.requests == []


@each("segment", ["list", "describe", "invoke", "add"])
async def test_nothing_under_tools_can_be_deleted(client: Client, backend: ScriptedBackend, segment: str) -> None:
    answer = await client.send("DELETE", f"/mcp/tools/{segment}")
    assert answer.status == 405
    assert "DELETE" not in answer.headers["Allow"]
    assert backend.requests == []


@each("segment", ["list", "describe"])
async def test_a_segment_of_our_own_is_no_tool_to_post_to(client: Client, segment: str) -> None:
    """RFC 9110 §15.5.6: the path is there, and for another verb."""
    answer = await client.post(f"/mcp/tools/{segment}", json.loads(ADD))
    assert answer.fault == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD"


async def test_a_method_override_is_not_heard(client: Client, backend: ScriptedBackend) -> None:
    """H18: neither way."""
    headers = {"X-HTTP-Method-Override": "POST", "Content-Type": "application/json"}
    assert (await client.send("PUT", "/mcp", CALL, headers)).status == 405
    assert backend.requests == []
    answer = await client.send("POST", "/mcp", CALL, headers | {"X-HTTP-Method-Override": "PUT"})
    assert answer.result["isError"] is False
    assert [sent.verb for sent in backend.requests] == ["POST"]


@each("verb", ["GET", "POST", "DELETE"])
async def test_a_slash_too_many_is_told_where_the_endpoint_is(client: Client, verb: str) -> None:
    answer = await client.send(verb, "/mcp/")
    assert answer.fault == (404, "not_found")
    assert answer.error["message"] == "Not found; the MCP endpoint is /mcp"
    assert "/mcp" not in (await client.send(verb, "/nope/")).error["message"]
