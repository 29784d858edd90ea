"""Host and Origin: DNS rebinding and foreign pages (all revisions, basic/transports "Security Warning")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.process.server import Server
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import Answer, Client, exchange, modern_headers, modern_request, request, status_of

pytestmark = pytest.mark.usefixtures("both_servers")


ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}
APP = "https://app.example.com"
PUBLIC = "https://gw.example.net"
PLACES = ("/mcp", "/mcp/tools/list", "/mcp/tools/describe", "/mcp/tools/invoke", "/mcp/tools/add", "/nope")
JSON_RPC = {*((verb, "/mcp") for verb in ("GET", "POST", "OPTIONS")), ("POST", "/mcp/tools/add")}
"""Where errors are JSON-RPC's."""


async def call(client: Client, **headers: str) -> Answer:
    """A tools/call in the modern era with these headers besides."""
    return await client.mcp(modern_request("tools/call", ADD), modern_headers("tools/call", "add") | headers)


@each(
    "host",
    [
        "evil.example.com",
        "evil.example.com:8080",
        "127.0.0.1.evil.example.com",
        "localhost.evil.example.com",
        "evil.localhost",
        "127.0.0.1@evil.example.com",
        "127.0.0.2",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "gw.example.net",
        "[::1",
        "a@127.0.0.1",
        "127.0.0.1#.evil.com",
        "127.0.0.1/.evil.com",
        "127.0.0.1?.evil.com",
        "127.0.0.1 .evil.com",
    ],
)
async def test_a_host_that_is_not_ours_is_421(client: Client, backend: ScriptedBackend, host: str) -> None:
    """H06: a rebound name is the attacker's, and the browser puts it into Host. On every path, before anything."""
    for path in PLACES:
        for verb in ("GET", "POST", "OPTIONS"):
            answer = await client.send(verb, path, headers={"Host": host})
            assert answer.fault == (421, 421 if (verb, path) in JSON_RPC else "misdirected_request")
    assert (await call(client, Host=host)).status == 421
    assert backend.requests == []


@each("host", ["127.0.0.1", "localhost", "LocalHost", "[::1]", "localhost:{port}", "127.0.0.1:1"])
async def test_loopback_is_our_own_host_on_any_port(client: Client, host: str) -> None:
    """The port is not compared: whoever forwards a port gives it another number."""
    assert (await call(client, Host=host.format(port=client.port))).result["isError"] is False


async def test_the_host_of_public_url_and_configured_hosts_are_ours(connect: Connect) -> None:
    client = await connect(f"server.public_url={PUBLIC}", "server.allowed_hosts=[Intern.example.net]")
    for host in ("gw.example.net", "gw.example.net:443", "intern.example.net:8080", "localhost"):
        assert (await call(client, Host=host)).status == 200
    for host in ("evil.example.com", "gw.example.net.evil.example.com", "x.gw.example.net"):
        assert (await call(client, Host=host)).status == 421


async def test_a_proxy_in_front_may_check_the_host_instead(connect: Connect) -> None:
    client = await connect('server.allowed_hosts=["*"]')
    assert (await call(client, Host="anything.example.com")).status == 200


async def test_an_absolute_target_is_a_host_too(gateway: Server, backend: ScriptedBackend) -> None:
    """H08, RFC 9112 §3.2.2: the target's host counts, not the header's."""
    body = json.dumps(request("tools/call", ADD)).encode()
    head = "POST http://evil.example.com/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    raw = await exchange(gateway.port, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert status_of(raw) in (400, 421)
    assert backend.requests == []


@each(
    "origin",
    [
        "https://evil.example.com",
        "null",
        "",
        "*",
        "https://good.evil",
        "https://app.example.com.evil.example",
        "https://evilapp.example.com",
        "https://app.example.com:8443",
        "http://app.example.com",
        "https://app.example.com@evil.example",
        "https://x.app.example.com",
        "app.example.com",
        "//app.example.com",
        "file://",
        "chrome-extension://app.example.com",
        "http://127.0.0.1.evil.example.com",
        "http://127.0.0.1:1",
        "https://app.example.com, https://evil.example.com",
        "http://[::1",
    ],
)
async def test_an_origin_that_is_not_allowed_is_403(
    connect_once: Connect, backend: ScriptedBackend, origin: str
) -> None:
    """H07; streamable-http "Security Warning": present and invalid MUST be 403. The error has no id."""
    client = await connect_once(f"server.allowed_origins=[{APP}]")
    for answer in (
        await call(client, Origin=origin),
        await client.mcp(request("tools/call", ADD), {"Origin": origin}),
        await client.post("/mcp/tools/invoke", ADD, {"Origin": origin}),
        await client.get("/mcp/tools/list", Origin=origin),
        await client.send("OPTIONS", "/mcp", headers=preflight(origin)),
    ):
        assert answer.status == 403
        assert answer.error["code"] in (403, "forbidden")
        assert "id" not in answer.json
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert backend.requests == []


@each("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_our_own_origin_may_call(client: Client, name: str) -> None:
    """Host and Origin are equal to the URL's own host and port. It needs no CORS headers."""
    own = f"{name}:{client.port}"
    assert (await call(client, Host=own, Origin=f"http://{own}")).result["isError"] is False
    answer = await client.mcp(request("tools/call", ADD), {"Host": own, "Origin": f"http://{own}"})
    assert answer.result["isError"] is False
    assert "Access-Control-Allow-Origin" not in answer.headers


@each("name", ["127.0.0.1", "localhost", "[::1]"])
@each("other", ["127.0.0.1", "localhost", "[::1]"])
async def test_our_own_port_may_call_by_any_name_of_loopback(client: Client, name: str, other: str) -> None:
    """The default allow-list contains 127.0.0.1:port, localhost:port and [::1]:port."""
    headers = {"Host": f"{name}:{client.port}", "Origin": f"http://{other}:{client.port}"}
    assert (await call(client, **headers)).result["isError"] is False


async def test_a_port_of_loopback_that_is_not_ours_may_not_call(client: Client, backend: ScriptedBackend) -> None:
    """Another program's page on the same machine is foreign until server.allowed_origins names it."""
    assert (await call(client, Origin=f"http://localhost:{backend.port}")).status == 403


async def test_the_origin_of_public_url_may_call(connect: Connect) -> None:
    client = await connect(f"server.public_url={PUBLIC}/gateway")
    for origin in (PUBLIC, f"{PUBLIC}:443", PUBLIC.upper()):
        assert (await call(client, Host="gw.example.net", Origin=origin)).status == 200
    for origin in ("http://gw.example.net:80", f"{PUBLIC}:8443"):
        assert (await call(client, Host="localhost", Origin=origin)).status == 403


async def test_a_request_without_an_origin_is_no_browsers(client: Client) -> None:
    assert (await call(client)).result["isError"] is False


def preflight(origin: str) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, mcp-protocol-version",
    }


@each("path", ["/mcp", "/mcp/tools/list", "/mcp/tools/invoke", "/mcp/tools/add"])
async def test_a_preflight_of_a_configured_origin_is_204_and_stops_here(
    connect_once: Connect, backend: ScriptedBackend, path: str
) -> None:
    """H09, WHATWG Fetch "CORS-preflight request": the exact origin, and never a wildcard."""
    client = await connect_once(f"server.allowed_origins=[{APP}]")
    answer = await client.send("OPTIONS", path, headers=preflight(APP))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == APP
    assert answer.headers["Vary"] == "Origin"
    assert {"GET", "POST"} <= set(answer.headers["Access-Control-Allow-Methods"].split(", "))
    allowed = {name.strip().lower() for name in answer.headers["Access-Control-Allow-Headers"].split(",")}
    assert {"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"} <= allowed
    assert "mcp-session-id" in allowed
    assert backend.requests == []


async def test_headers_that_tools_name_are_allowed_as_a_page_asks_for_them(connect: Connect) -> None:
    """SEP-2243: Mcp-Param-*, which no fixed list can have and no wildcard covers; other names are not repeated."""
    client = await connect(f"server.allowed_origins=[{APP}]")
    asked = "authorization,mcp-param-region, Mcp-Param-Dry-Run,x-other,x-mcp-param-no,mcp-param-"
    answer = await client.send("OPTIONS", "/mcp", headers=preflight(APP) | {"Access-Control-Request-Headers": asked})
    allowed = {name.strip().lower() for name in answer.headers["Access-Control-Allow-Headers"].split(",")}
    assert {"authorization", "mcp-method", "mcp-param-region", "mcp-param-dry-run"} <= allowed
    assert not {"x-other", "x-mcp-param-no", "mcp-param-", "mcp-param-no"} & allowed


ANSWERS: dict[str, Any] = {
    "a result": ("POST", "/mcp", request("tools/call", ADD), 200),
    "no JSON": ("POST", "/mcp", b"{", 400),
    "another verb": ("PUT", "/mcp", None, 405),
    "a result of REST": ("POST", "/mcp/tools/invoke", ADD, 200),
    "an error of REST": ("POST", "/mcp/tools/invoke", {"name": "nope"}, 404),
    "a refused cursor": ("GET", "/mcp/tools/list?cursor=forged", None, 400),
    "an unknown path": ("GET", "/nope", None, 404),
}


@each(("verb", "path", "body", "status"), ANSWERS)
async def test_a_configured_origin_can_read_every_answer(
    connect_once: Connect, verb: str, path: str, body: Any, status: int
) -> None:
    """WHATWG Fetch "CORS check": errors included, or the page could not tell them apart."""
    client = await connect_once(f"server.allowed_origins=[{APP}]")
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.send(verb, path, raw, {"Origin": APP, "Content-Type": "application/json"})
    assert answer.status == status
    assert answer.headers["Access-Control-Allow-Origin"] == APP
    assert answer.headers["Vary"] == "Origin"
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Retry-After", "RateLimit", "RateLimit-Policy", "X-Request-Id"} <= set(exposed)
    assert "Access-Control-Allow-Credentials" not in answer.headers
