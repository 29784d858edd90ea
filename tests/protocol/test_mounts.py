"""Several services behind one public port, each below a mount of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from gateway.errors import MalformedHttp
from gateway.web.public import Origins
from tests.each import each
from tests.protocol.sites import PUBLIC, TOKENS, Several, several
from tests.protocol.talk import Client, exchange, legacy_headers, modern_headers, modern_request, request, status_of
from tests.protocol.watched import Watched
from tests.tables import each_row
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")

ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}
ECHO = {"name": "echo", "arguments": {"value": "shop"}}
METADATA = "/.well-known/oauth-protected-resource"
PROGRESS = ADD | {"_meta": {"progressToken": "p"}}


@pytest.fixture
async def it() -> AsyncIterator[Several]:
    async with several() as both:
        yield both


async def refused(client: Client, verb: str, path: str) -> tuple[int, object, str]:
    """Status, code and message of a refusal that is not MCP's, which :class:`Client` expects of ``/mcp``."""
    async with client.request(verb, path, None, {}) as answer:
        error = (await answer.json())["error"]
        return answer.status, error["code"], error["message"]


async def names(client: Client) -> list[str]:
    return [tool["name"] for tool in (await client.modern("tools/list")).result["tools"]]


# --- each serves below its mount, and nothing of the other ------------------------------------------------------


async def test_each_service_lists_and_calls_its_own_tools(it: Several) -> None:
    assert (await names(it.crm.client), await names(it.shop.client)) == (["add"], ["echo"])
    assert (await it.crm.client.modern("tools/call", ADD)).result["structuredContent"] == {"sum": 5}
    assert (await it.shop.client.legacy("tools/call", ECHO)).result["isError"] is False
    assert (await it.shop.client.post("/mcp/tools/invoke", ECHO)).json == {"result": "shop"}
    assert (await it.crm.client.post("/mcp/tools/add", request("add", [2, 3]))).result == {"sum": 5}
    assert (await it.crm.client.post("/jsonrpc", request("add", [2, 3]))).result == {"sum": 5}


async def test_no_service_has_the_tools_of_another(it: Several) -> None:
    shop = it.shop.client
    assert (await shop.modern("tools/call", ADD)).fault == (200, -32602)
    assert (await shop.post("/mcp/tools/invoke", ADD)).fault == (404, "tool_not_found")
    assert (await shop.post("/mcp/tools/add", request("add", [2, 3]))).fault == (404, -32601)
    assert (await shop.post("/jsonrpc", request("add", [2, 3]))).fault == (200, -32601)
    assert (await shop.get("/mcp/tools/describe?name=add")).fault == (404, "tool_not_found")
    assert it.crm.backend.calls("add") == it.shop.backend.calls("add") == 0


@each(
    "path",
    [
        "/",
        "/mcp/tools/list",
        "/mcp/tools/add",
        "/jsonrpc",
        "/crm",
        "/crm/",
        "/CRM/mcp",
        "//crm/mcp",
        "/crm/shop/mcp",
        "/crm/crm/mcp",
        "/crm%2fmcp",
        "/crm/mcp%2ftools%2flist",
        "/x/../../crmx/mcp",
        f"{METADATA}/crm/mcp",
    ],
)
async def test_a_path_below_no_mount_is_404(it: Several, path: str) -> None:
    """The root's endpoint is nobody's where there are several."""
    for verb in ("GET", "POST", "DELETE"):
        assert await refused(it.root, verb, path) == (404, "not_found", "Not found")


@each("path", ["/mcp", "/nope/mcp", "/crmx/mcp"])
async def test_who_looks_for_mcp_below_no_mount_is_told_in_its_own_form(it: Several, path: str) -> None:
    for verb in ("GET", "POST", "DELETE"):
        answer = await it.root.send(verb, path)
        assert (answer.status, answer.error["message"]) == (404, "Not found")
        assert answer.json == {"jsonrpc": "2.0", "error": answer.error}
        assert isinstance(answer.error["code"], int)


async def test_a_slash_too_many_is_told_where_the_mounts_endpoint_is(it: Several) -> None:
    answer = await it.crm.client.get("/mcp/")
    assert answer.error["message"] == "Not found; the MCP endpoint is /crm/mcp"


# --- the form of errors, and of what is listed ------------------------------------------------------------------


@each_row
async def test_a_refusal_has_the_form_of_its_path_below_the_mount(
    it: Several, verb: str, path: str, status: int, members: set[str]
) -> None:
    for client in (it.crm.client, it.shop.client):
        answer = await client.send(verb, path)
        assert answer.status == status
        assert set(answer.json) == {"error"} | members
        assert answer.json["error"]["code"] == (status if members else answer.json["error"]["code"])
        assert isinstance(answer.json["error"]["code"], int) == bool(members)


@pytest.mark.own_server("malformed HTTP: aiohttp refuses it, or takes it, by its own rules")
async def test_broken_framing_is_refused_in_the_form_of_its_path_below_the_mount(it: Several) -> None:
    """The path has not led to a route yet."""
    for path, id in (("/crm/mcp", {}), ("/crm/jsonrpc", {"id": None}), ("/shop/mcp/tools/x", {"id": None})):
        raw = await exchange(it.gateway.port, f"POST {path} HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert status_of(raw) == MalformedHttp.status
        answer = json.loads(raw.partition(b"\r\n\r\n")[2])
        assert answer == {"jsonrpc": "2.0", **id, "error": answer["error"]}
    raw = await exchange(it.gateway.port, b"POST /nope HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n")
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == "malformed_http"


async def test_a_listed_endpoint_is_where_the_tool_can_be_called(it: Several) -> None:
    (listed,) = (await it.crm.client.get("/mcp/tools/list")).json["tools"]
    described = (await it.crm.client.get("/mcp/tools/describe?name=add")).json["tool"]
    assert listed["endpoint"] == described["endpoint"] == "/crm/mcp/tools/add"
    assert (await it.root.post(listed["endpoint"], request("add", [2, 3]))).result == {"sum": 5}


async def test_the_log_names_the_service(it: Several) -> None:
    with capture_logs() as lines:
        await it.crm.client.modern("tools/call", ADD)
        await it.shop.client.get("/nope")
        await refused(it.root, "GET", "/mcp")
    logged = [line for line in lines if line["event"] == "request"]
    assert [line.get("service") for line in logged] == ["crm", "shop", ""]
    assert [line["status"] for line in logged] == [200, 404, 404]


# --- who issues tokens ------------------------------------------------------------------------------------------


async def test_each_service_says_at_its_own_place_who_issues_tokens_for_it() -> None:
    """RFC 9728 §3.1: the well-known part comes before the resource's path."""
    async with several(*TOKENS) as it:
        answer = await it.root.get(f"{METADATA}/shop/mcp", Origin="https://evil.example", Host="evil.example")
        assert answer.status == 200
        assert answer.json["resource"] == f"{PUBLIC}/shop/mcp"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        for path in ("", "/mcp", "/crm/mcp", "/shop", "/shop/mcp/", "/shop/jsonrpc"):
            assert (await it.root.get(f"{METADATA}{path}")).fault == (404, "not_found")
        assert (await it.shop.client.get(f"{METADATA}/mcp")).status == 404


async def test_a_challenge_names_the_metadata_of_its_service() -> None:
    async with several(*TOKENS) as it:
        for answer in (
            await it.shop.client.modern("tools/list"),
            await it.shop.client.get("/mcp/tools/list"),
            await it.shop.client.post("/jsonrpc", request("echo", [1])),
        ):
            assert answer.status == 401
            assert f'resource_metadata="{PUBLIC}{METADATA}/shop/mcp"' in answer.headers["WWW-Authenticate"]
        assert await names(it.crm.client) == ["add"]
        assert (await it.shop.client.get("/nope")).status == 404  # no path of ours: nobody is asked who they are


# --- swapping ---------------------------------------------------------------------------------------------------


async def test_a_call_under_way_ends_with_the_service_that_it_began_with(it: Several) -> None:
    watched = Watched()
    it.crm.backend.on("add", watched)
    call = asyncio.create_task(it.crm.client.modern("tools/call", ADD))
    await watched.begun()
    it.handler.sites = {"/shop": it.shop.site}
    assert (await refused(it.crm.client, "POST", "/mcp"))[0] == 404
    assert await names(it.shop.client) == ["echo"]
    ended = asyncio.create_task(it.crm.uses.wait_until_idle())
    await it.shop.client.get("/nope")
    assert not ended.done()
    watched.release()
    async with asyncio.timeout(PATIENCE):
        assert (await call).result["structuredContent"] == {"sum": 5}
        await ended


async def test_a_service_that_was_taken_away_may_come_back(it: Several) -> None:
    below = it.handler.sites
    it.handler.sites = {}
    assert (await it.root.get("/mcp/tools/list")).status == 404
    it.handler.sites = below
    assert await names(it.crm.client) == ["add"]


async def test_hosts_and_origins_are_those_of_the_moment(it: Several) -> None:
    page = "https://app.example.com"
    assert (await it.crm.client.get("/mcp/tools/list", Origin=page)).status == 403
    assert (await it.crm.client.get("/mcp/tools/list", Host="intern.example.net")).status == 421
    it.handler.origins = Origins(PUBLIC, ["intern.example.net"], [page])
    answer = await it.crm.client.get("/mcp/tools/list", Origin=page, Host="intern.example.net")
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == page


async def test_a_call_that_streams_its_progress_is_a_use_of_the_service_until_it_is_over(it: Several) -> None:
    watched = Watched()
    it.crm.backend.on("add", watched)
    body, headers = modern_request("tools/call", PROGRESS), modern_headers("tools/call", "add")
    async with it.crm.client.stream(body, headers) as stream:
        assert (await stream.message())["method"] == "notifications/progress"
        await watched.begun()
        ended = asyncio.create_task(it.crm.uses.wait_until_idle())
        await it.shop.client.get("/nope")
        assert not ended.done()
        watched.release()
        assert (await stream.message())["result"]["structuredContent"] == {"sum": 5}
        async with asyncio.timeout(PATIENCE):
            await ended


async def test_a_stream_of_notices_is_no_use_of_the_service(it: Several) -> None:
    """It belongs to the mount, and would keep a replaced service for ever."""
    async with it.crm.client.listen({"toolsListChanged": True}) as modern, asyncio.timeout(PATIENCE):
        await modern.message()
        await it.crm.uses.wait_until_idle()
        legacy = {"Accept": "text/event-stream", **legacy_headers("2025-11-25")}
        async with it.crm.client.stream(None, legacy) as older:
            await older.comment()
            await it.crm.uses.wait_until_idle()


# --- in a debugger ------------------------------------------------------------------------------------------------


async def test_the_objects_of_a_service_say_what_they_serve(it: Several) -> None:
    site = it.crm.site
    assert repr(it.handler) == "<PublicHandler: /crm, /shop>"
    assert repr(site) == "<Site at /crm, auth off, <Uses 0>>"
    with site.uses:
        assert repr(site) == "<Site at /crm, auth off, <Uses 1>>"
    versions = "2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"
    assert repr(site.endpoint) == f"<Endpoint for {versions}: <RunningCalls: 0 running, 0 can be cancelled>>"
    assert (
        repr(site.operations.invocation) == f"<Invocation: <Forwarder to {it.crm.backend.url} with NoCredential, 30 s>>"
    )


async def test_the_repr_of_what_makes_calls_hides_a_token_in_the_url_of_its_backend() -> None:
    async with several("backend.url=http://127.0.0.1:9/v3/7f9a2c41d8e04b3f9c6a5b1e2d3f4a5b") as it:
        assert (
            repr(it.shop.site.operations.invocation)
            == "<Invocation: <Forwarder to http://127.0.0.1:9/v3/… with NoCredential, 30 s>>"
        )
