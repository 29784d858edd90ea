"""Headers that would tell another path, caller or answer than there is (security.md H09, H18, H21, H22, H27, H28)."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.authorization.rows import invites
from tests.authorization.stand import CALLS, LISTS, METADATA, Bearer, names, stand
from tests.each import each
from tests.fault.behaviours import error
from tests.fault.scripted import ScriptedBackend
from tests.program import serving
from tests.protocol.talk import exchange, meta, modern_headers, modern_request, status_of
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

TWO_AND_THREE: Final = {"a": 2, "b": 3}
ANOTHER_PATH: Final = ("X-Forwarded-Uri", "X-Original-URL", "X-Original-Uri", "X-Rewrite-URL", "X-Forwarded-Path")
OPEN_PATHS: Final = ("/.well-known/oauth-protected-resource/mcp", "/livez", "/")
ANOTHER_CALLER: Final = {
    "X_Forwarded_User": "root",
    "Remote_User": "root",
    "Remote-User": "root",
    "X-Forwarded-User": "root",
    "X-Auth-Request-Email": "root@example.com",
    "X_Authorization": "Bearer root",
}


@each("path", OPEN_PATHS)
@each("header", ANOTHER_PATH)
async def test_no_header_moves_a_request_to_a_path_that_is_open(header: str, path: str) -> None:
    """H21: the request line alone says what is asked for."""
    async with stand() as it:
        await invites(it, [(header, path), ("X-Forwarded-Method", "OPTIONS"), ("X-HTTP-Method-Override", "OPTIONS")])
        document = await it.client().get(OPEN_PATHS[0], **{header: "/mcp"})
        assert document.json["resource"].endswith("/mcp")


ANOTHER_CALL: Final[dict[str, dict[str, str | None]]] = {
    "another method": {"Mcp-Method": "tools/list"},
    "another method, and no tool": {"Mcp-Method": "tools/list", "Mcp-Name": None},
    "no method": {"Mcp-Method": None},
    "another tool": {"Mcp-Name": "echo"},
    "no tool": {"Mcp-Name": None},
}


@each("changes", ANOTHER_CALL)
async def test_what_a_proxy_may_decide_by_is_the_call_that_is_made(changes: dict[str, str | None]) -> None:
    """A proxy that reads Mcp-Method and Mcp-Name, and no body, lets through what the gateway then does."""
    async with stand() as it:
        ann = it.of("ann")
        body = modern_request("tools/call", {"name": "add", "arguments": TWO_AND_THREE})
        whole = modern_headers("tools/call", "add")
        lying = {name: value for name, value in (whole | changes).items() if value is not None}
        refused = await ann.mcp(body, lying)
        assert (refused.status, refused.json["error"]["code"]) == (400, -32020)
        assert it.backend.calls("add") == 0
        assert (await ann.mcp(body, whole)).result["structuredContent"] == {"sum": 5}


@each("surface", CALLS)
async def test_a_client_can_neither_add_nor_take_away_what_the_service_is_told_of_its_caller(surface: str) -> None:
    """H22, RFC 9110 §7.6.1: what Connection names would be taken off by a proxy that only passes headers on."""
    async with stand() as it:
        ann = Telling(it.session, it.gateway.port, it.issuer.sign(sub="ann"))
        assert (await ann.call(surface, "add", TWO_AND_THREE)).status == 200
        (call,) = [sent for sent in it.backend.requests if sent.method == "add"]
        assert call.headers.getall("Authorization") == [f"Bearer {ann.token}"]
        assert "root" not in repr((call.headers, call.body))
        assert call.headers["Content-Type"] == "application/json"


class Telling(Bearer):
    """A client that says who it is in every way that some server believes."""

    def request(self, verb: str, path: str, body: bytes | None, headers: object) -> object:
        hop = {"Connection": "keep-alive, Authorization, Content-Type, Host, X-Forwarded-User"}
        return super().request(verb, path, body, {**ANOTHER_CALLER, **hop, **dict(headers)})  # type: ignore[call-overload]


async def test_a_preflight_takes_no_token_and_does_not_reach_the_service() -> None:
    """H09, Fetch "CORS-preflight request": a browser sends none. A page that may not call is told nothing."""
    async with stand("server.allowed_origins=[https://app.example.com]") as it:
        it.backend.requests.clear()
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        for path in ("/mcp", "/mcp/tools/invoke", "/mcp/tools/add", "/jsonrpc"):
            good = await it.client().send("OPTIONS", path, headers={"Origin": "https://app.example.com", **asked})
            assert (good.status, good.headers["Access-Control-Allow-Origin"]) == (204, "https://app.example.com")
            assert "authorization" in good.headers["Access-Control-Allow-Headers"].lower()
            bad = await it.client().send("OPTIONS", path, headers={"Origin": "https://evil.example.com", **asked})
            assert (bad.status, "Access-Control-Allow-Origin" in bad.headers) == (403, False)
            assert "Access-Control-Allow-Credentials" not in {*good.headers, *bad.headers}
        assert it.backend.requests == []


@pytest.mark.own_server("aiohttp reads the target of CONNECT by its own rules")
@each_row
async def test_a_verb_that_would_make_a_tunnel_or_an_echo_is_refused(target: str, status: int) -> None:
    """H18, RFC 9110 §9.3.6 and §9.3.8: nothing is connected to, and no header comes back."""
    async with stand() as it:
        it.backend.requests.clear()
        connections = it.backend.connections
        line = target.format(port=it.backend.port)
        raw = await exchange(it.gateway.port, f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Echo: canary\r\n\r\n".encode())
        assert status_of(raw) == status
        assert b"canary" not in raw
        assert (it.backend.requests, it.backend.connections) == ([], connections)


@each("surface", CALLS)
async def test_what_the_service_says_in_its_401_is_not_in_the_challenge(surface: str) -> None:
    """H28, RFC 6750 §3: fixed sentences. A quote or a line end of the service would be a header of its own."""
    said = 'expired", realm="evil\r\nSet-Cookie: sid=evil'
    async with stand() as it:
        headers = (("WWW-Authenticate", 'Bearer realm="evil", error="evil"'), ("Set-Cookie", "sid=evil"))
        it.backend.on("add", error(-32001, said, status=401, headers=headers))
        answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert answer.status == 401
        (challenge,) = (value for name, value in answer.headers.items() if name.lower() == "www-authenticate")
        assert challenge == (
            'Bearer error="invalid_token", error_description="The backend does not accept this token", '
            f'resource_metadata="{METADATA}"'
        )
        assert "evil" not in repr(answer.headers)
        assert b"evil" not in answer.body
        assert it.backend.calls("add") == 1


@each("surface", LISTS)
async def test_what_the_service_says_in_the_401_of_its_listing_is_not_in_the_challenge(surface: str) -> None:
    async with stand() as it:
        it.listings.refused["ann"] = 401
        answer = await it.of("ann").list(surface)
        assert answer.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token", error_description="The ')
        assert await names(it.of("bob"), surface) == ["add", "echo", "fail", "void"]


@pytest.mark.own_server("it starts no gateway")
async def test_a_name_with_a_line_end_makes_no_line_in_the_log_and_no_header() -> None:
    """H27: the tool is looked up, found nowhere, and written escaped. The service hears nothing of it."""
    forged = "x\r\nforged: 1\r\n\r\nforged \x1b[2Kforged"
    async with ScriptedBackend() as backend, serving(backend.url) as (program, gateway):
        backend.requests.clear()
        answers = [await gateway.call(surface, forged, {}) for surface in ("legacy", "rest")]
        answers.append(await gateway.post(f"{gateway.mcp}/tools/x%0d%0aforged:%201%1b[2K", {"jsonrpc": "2.0", "id": 1}))
        assert [answer.status for answer in answers] == [200, 404, 400]
        assert all("forged" not in "".join(answer.headers) for answer in answers)
        await gateway.call("rest", "echo", {"value": "the last"})
        await program.said('"tool":"echo"')
        assert all(line.startswith('{"') for line in program.lines)
        assert "\x1b[2K" not in program.output
        assert [sent.method for sent in backend.requests] == ["echo"]


async def test_a_name_that_no_header_can_say_is_a_mismatch_and_no_call() -> None:
    """H27, SEP-2243: -32020 where header and body differ, whatever either of them holds."""
    async with stand() as it:
        ann = it.of("ann")
        await names(ann)
        it.backend.requests.clear()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        params = {"name": "add\r\nX-Evil: 1", "arguments": TWO_AND_THREE}
        answer = await ann.mcp({**body, "params": {**params, "_meta": meta()}}, modern_headers("tools/call", "add"))
        assert answer.fault == (400, -32020)
        assert it.backend.requests == []
        assert json.loads(answer.body)["id"] == 1
