"""The gateway as an application of aiohttp: alone, below a prefix of another application, and from start to stop.

What concerns bytes (pipelining, half-closed and slow clients, malformed HTTP) is aiohttp's there, and not tested here.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import structlog
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient
from structlog.testing import capture_logs

from gateway.aiohttp_app import GATEWAY, aiohttp_app, well_known
from gateway.config.source import ConfigError, load_settings
from gateway.discovery.garbage_collection import LARGE
from gateway.errors import InternalError
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import Response, StreamedResponse
from gateway.process.server import Server
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, ECHO, Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import settings
from tests.protocol.sites import PUBLIC, TOKENS
from tests.protocol.streams import Mark
from tests.protocol.talk import JSON, LEGACY, MODERN, Client, legacy_headers, modern_headers, modern_request
from tests.protocol.test_progress import called, told
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE, until

Open = Callable[[web.Application], Awaitable[TestClient[Any, Any]]]

CALL: Final = {"name": "add", "arguments": {"a": 2, "b": 3}}
GW: Final = f"server.public_url={PUBLIC}/gw"
CHANGED: Final = "notifications/tools/list_changed"


def within(app: web.Application, prefix: str) -> web.Application:
    """Another application with a page of its own, which the gateway is a part of."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="a page")

    outer = web.Application()
    outer.router.add_get("/", page)
    outer.add_routes(well_known(app))
    outer.add_subapp(prefix, app)
    return outer


@pytest.fixture(params=["", "/gw"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def opened(aiohttp_client: Open, backend: ScriptedBackend, prefix: str) -> Callable[..., Awaitable[Client]]:
    """``await opened("section.knob=value", ...)`` is a client of a gateway, alone or below a prefix."""

    async def opened(*knobs: str) -> Client:
        app = aiohttp_app(settings(backend.url, f"server.public_url={PUBLIC}{prefix}", *knobs), prefix)
        test_client = await aiohttp_client(within(app, prefix) if prefix else app)
        await app[GATEWAY].wait_until_listed()
        return Client(test_client.session, test_client.server.port or 0, prefix)

    return opened


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[tuple[int, web.AppRunner]]:
    """The application as ``web.run_app`` serves it, with default arguments, and its port."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1], runner
    finally:
        await runner.cleanup()


async def test_lists_and_calls_are_the_same_on_each_surface(opened: Callable[..., Awaitable[Client]]) -> None:
    client = await opened()
    for era in (MODERN, LEGACY[0]):
        assert "add" in [tool["name"] for tool in (await client.speak(era, "tools/list")).result["tools"]]
        assert (await client.speak(era, "tools/call", CALL)).result["structuredContent"] == {"sum": 5}
    assert "add" in [tool["name"] for tool in (await client.get("/mcp/tools/list")).json["tools"]]
    assert (await client.post("/mcp/tools/invoke", CALL)).json == {"result": {"sum": 5}}
    single = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": {"a": 2, "b": 3}}
    for path in ("/mcp/tools/add", "/jsonrpc"):
        assert (await client.post(path, single)).json == {"jsonrpc": "2.0", "id": 1, "result": {"sum": 5}}
    notice = await client.post("/jsonrpc", {"jsonrpc": "2.0", "method": "add", "params": {"a": 2, "b": 3}})
    assert (notice.status, notice.body) == (204, b"")


async def test_errors_have_the_gateway_s_form_and_headers(opened: Callable[..., Awaitable[Client]]) -> None:
    client = await opened("server.max_body=2KiB")
    large = await client.post("/mcp/tools/invoke", b" " * 2049)
    assert (large.status, large.json["error"]["code"]) == (413, "too_large")
    refused = await client.send("PUT", "/mcp", b"{}", JSON)
    assert (refused.status, refused.headers["Allow"]) == (405, "DELETE, GET, POST")
    assert (await client.get("/nope")).json["error"]["code"] == "not_found"
    assert (await client.get("/mcp/tools/list", Host="evil.example.com")).status == 421
    assert (await client.get("/mcp/tools/list", Origin="https://evil.example.com")).status == 403
    head = await client.send("HEAD", "/mcp/tools/list")
    assert (head.status, head.body, head.headers["Cache-Control"]) == (200, b"", "no-store")
    assert int(head.headers["Content-Length"]) > 100


async def test_a_body_may_be_packed_come_in_parts_or_end_too_early(opened: Callable[..., Awaitable[Client]]) -> None:
    client = await opened("server.max_body=2KiB")
    raw = json.dumps(CALL).encode()
    packed = await client.post("/mcp/tools/invoke", gzip.compress(raw), {"Content-Encoding": "gzip"})
    assert packed.json == {"result": {"sum": 5}}
    bomb = await client.post("/mcp/tools/invoke", gzip.compress(b" " * 100_000), {"Content-Encoding": "gzip"})
    assert bomb.json["error"]["code"] == "too_large"
    path = f"{client.mount}/mcp/tools/invoke"
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: {len(raw)}\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE):
        assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        for byte in raw:
            writer.write(bytes((byte,)))
            await writer.drain()
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    with capture_logs() as logs:
        writer.write(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw[:5])
        await writer.drain()
        writer.transport.abort()
        await until(lambda: [line for line in logs if line["event"] == "request"])


async def test_progress_comes_while_the_call_runs(
    opened: Callable[..., Awaitable[Client]], backend: ScriptedBackend
) -> None:
    client = await opened("mcp.heartbeat=50ms")
    watched = Watched()
    backend.on("add", watched)
    async with client.stream(*called(MODERN, "p")) as stream:
        for beat in (0, 1):
            assert (await stream.message())["params"] == told("p", "add", beat)
        watched.release()
        assert (await stream.rest())[-1]["result"]["structuredContent"] == {"sum": 5}


async def test_a_stream_of_notices_tells_of_a_change(
    opened: Callable[..., Awaitable[Client]], backend: ScriptedBackend
) -> None:
    client = await opened("catalog.ttl=50ms", "catalog.notify_interval=0")
    async with client.listen({"toolsListChanged": True}) as stream:
        await stream.message()
        backend.on("rpc.discover", result(openrpc([ADD])))
        assert (await stream.message())["method"] == CHANGED


@each("streamed", [False, True])
async def test_a_call_ends_when_its_client_hangs_up(backend: ScriptedBackend, streamed: bool) -> None:
    watched = Watched()
    backend.on("add", watched)
    app = aiohttp_app(settings(backend.url))
    async with served(app) as (port, _), ClientSession() as session:
        body, headers = (
            called(MODERN, "p")
            if streamed
            else (modern_request("tools/call", CALL), modern_headers("tools/call", "add"))
        )
        with capture_logs() as logs:
            call = asyncio.create_task(Client(session, port).mcp(body, headers))
            await watched.begun()
            call.cancel()
            assert await watched.over() == "abandoned"
            (line,) = await until(lambda: [line for line in logs if line["event"] == "request"])
        assert (line["outcome"], line["status"]) == ("left", 200 if streamed else 0)
        assert (app[GATEWAY].held.bytes, app[GATEWAY].services[""].uses.running) == (0, 0)


@pytest.mark.parametrize("era", [MODERN, LEGACY[0]])
async def test_streams_end_at_once_where_the_application_does_and_nothing_is_left(
    backend: ScriptedBackend, era: str
) -> None:
    before = len(asyncio.all_tasks())
    app = aiohttp_app(settings(backend.url))
    async with served(app) as (port, runner), ClientSession() as session:
        client = Client(session, port)
        opening = (
            client.listen({"toolsListChanged": True})
            if era == MODERN
            else client.stream(None, {"Accept": "text/event-stream", **legacy_headers(era)})
        )
        async with opening as stream:
            await stream.event()
            async with asyncio.timeout(30):  # half of the time that aiohttp would wait
                await runner.cleanup()
            assert Mark.END in [await stream.event(), await stream.event()]
    await until(lambda: len(asyncio.all_tasks()) == before)


async def test_a_stream_that_fails_ends_its_connection(backend: ScriptedBackend) -> None:
    class Failing:
        """Streams a part, and then fails."""

        async def __call__(self, request: HttpRequest) -> StreamedResponse:
            return StreamedResponse(self._parts(), "text/plain", {})

        async def _parts(self) -> Any:
            yield b"part"
            raise RuntimeError("no more")

        def refusal(self, _: HttpRequest, error: Exception) -> Response:
            assert isinstance(error, InternalError)
            return Response(status=500)

    app = aiohttp_app(settings(backend.url))
    async with served(app) as (port, _):
        app[GATEWAY].handler = Failing()  # type: ignore[assignment]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            said = await reader.read()
        writer.close()
    assert said.endswith(b"4\r\npart\r\n")
    assert said.count(b"HTTP/1.1 ") == 1


async def test_within_another_application_its_pages_stay_and_the_metadata_is_at_its_root(
    aiohttp_client: Open, backend: ScriptedBackend
) -> None:
    app = aiohttp_app(settings(backend.url, GW, "auth.mode=jwt", *TOKENS[1:]), "/gw")
    test_client = await aiohttp_client(within(app, "/gw"))
    root = Client(test_client.session, test_client.server.port or 0)
    assert (await root.get("/")).body == b"a page"
    assert (await root.get("/mcp")).body == b"404: Not Found"
    refused = await root.post("/gw/mcp", modern_request("tools/list"), modern_headers("tools/list"))
    url = "/.well-known/oauth-protected-resource/gw/mcp"
    assert f'resource_metadata="{PUBLIC}{url}"' in refused.headers["WWW-Authenticate"]
    assert (await root.get(url)).json["resource"] == f"{PUBLIC}/gw/mcp"
    assert (await root.get("/.well-known/oauth-protected-resource/other/mcp")).body == b"404: Not Found"


async def test_a_middleware_of_the_outer_application_sees_each_request_and_may_read_its_body(
    aiohttp_client: Open, backend: ScriptedBackend
) -> None:
    seen: list[tuple[str, bytes, str]] = []

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        body = await request.read()
        response: web.StreamResponse = await handler(request)
        seen.append((request.path, body, response.headers["Content-Type"]))
        return response

    outer = web.Application(middlewares=[note])
    outer.add_subapp("/gw", aiohttp_app(settings(backend.url, GW), "/gw"))
    test_client = await aiohttp_client(outer)
    client = Client(test_client.session, test_client.server.port or 0, "/gw")
    assert (await client.post("/mcp/tools/invoke", CALL)).json == {"result": {"sum": 5}}
    assert seen == [("/gw/mcp/tools/invoke", json.dumps(CALL).encode(), "application/json")]


async def test_a_reload_changes_what_is_served_also_where_services_are_new(
    aiohttp_client: Open, backend: ScriptedBackend
) -> None:
    async with ScriptedBackend([ECHO]) as other:

        def several(*names: str) -> Any:
            urls = {"crm": backend.url, "shop": other.url}
            knobs = (f"services.{name}.{knob}" for name in names for knob in (f"backend.url={urls[name]}", *TOKENS))
            return load_settings(None, (GW, *knobs), environ={})

        app = aiohttp_app(several("crm"), "/gw")
        test_client = await aiohttp_client(within(app, "/gw"))
        root = Client(test_client.session, test_client.server.port or 0)
        document = "/.well-known/oauth-protected-resource/gw/{}/mcp"
        assert [(await root.get(document.format(name))).status for name in ("crm", "shop")] == [200, 404]
        await app[GATEWAY].reload(several("crm", "shop"))
        assert [(await root.get(document.format(name))).status for name in ("crm", "shop")] == [200, 200]
        assert (await root.get("/gw/shop/mcp/tools/list")).status == 401
        await app[GATEWAY].reload(several("shop"))
        assert [(await root.get(document.format(name))).status for name in ("crm", "shop")] == [404, 200]


async def test_several_services_have_paths_of_their_own(aiohttp_client: Open, backend: ScriptedBackend) -> None:
    async with ScriptedBackend([ECHO]) as other:
        knobs = ("auth.mode=off", f"services.crm.backend.url={backend.url}", f"services.shop.backend.url={other.url}")
        app = aiohttp_app(load_settings(None, knobs, environ={}))
        test_client = await aiohttp_client(app)
        await app[GATEWAY].wait_until_listed()
        for mount, tool in (("/crm", "add"), ("/shop", "echo")):
            client = Client(test_client.session, test_client.server.port or 0, mount)
            assert tool in [one["name"] for one in (await client.get("/mcp/tools/list")).json["tools"]]


@each(
    ("knobs", "prefix", "fault"),
    [
        ((), "/gw", "server.public_url: must end in /gw, where the application is mounted: set it to https://gw.ex"),
        (("server.public_url=https://a.example",), "/gw", "set it to https://a.example/gw"),
        ((GW,), "gw", f"set it to {PUBLIC}/gw/gw"),
        (
            ("server.workers=2", "store.url=redis://localhost", "server.secret_file=/dev/null"),
            "",
            "server.workers: must be 1 within aiohttp",
        ),
        (("auth.mode=jwt", *TOKENS[1:], "server.port=8080"), "", "server.public_url: is required"),
    ],
)
async def test_settings_that_do_not_fit_are_named(knobs: tuple[str, ...], prefix: str, fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        aiohttp_app(settings("http://127.0.0.1:1/jsonrpc", *knobs), prefix)
    assert fault in str(refused.value)


async def test_another_prefix_than_that_of_add_subapp_is_named() -> None:
    outer = web.Application()
    outer.add_subapp("/other", aiohttp_app(settings("http://127.0.0.1:1/jsonrpc", GW), "/gw"))
    with pytest.raises(ConfigError, match="prefix: is '/gw', but the application is mounted at '/other'"):
        await web.AppRunner(outer).setup()


def of_the_process() -> Mapping[str, Any]:
    """What belongs to the program that the gateway is a part of."""
    return {
        "signals": [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)],
        "log": [*logging.getLogger().handlers, logging.getLogger().level, structlog.get_config()["processors"]],
        "collector": (gc.get_threshold(), gc.get_freeze_count()),
        "loop": type(asyncio.get_running_loop()),
    }


async def test_it_leaves_the_process_as_it_is_and_opens_the_admin_port_only_where_it_is_asked_to(
    backend: ScriptedBackend,
) -> None:
    before = of_the_process()
    backend.on("rpc.discover", result(openrpc([Rpc(f"m{number}") for number in range(LARGE)])))
    for admin in (False, True):
        app = aiohttp_app(settings(backend.url, "catalog.max_tools=1000"), admin=admin)
        async with served(app) as (_, _), ClientSession() as session:
            gateway: Server = app[GATEWAY]
            await gateway.wait_until_listed()
            assert (gateway.port, bool(gateway.admin_port)) == (0, admin)
            assert of_the_process() == before
            if admin:
                async with session.get(f"http://127.0.0.1:{gateway.admin_port}/readyz") as answer:
                    assert answer.status == 200
        assert of_the_process() == before


def test_neither_the_package_nor_the_server_loads_aiohttp_s() -> None:
    look = """if True:
        import sys, gateway
        print("aiohttp" in sys.modules)
        import gateway.process.server
        print("aiohttp.web" in sys.modules)
    """
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout == "False\nFalse\n"
