"""The gateway as an application of aiohttp: below a prefix, at its start and end, and what it leaves alone."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import pytest
import structlog
from aiohttp import ClientSession, web

from gateway.aiohttp_app import GATEWAY, aiohttp_app
from gateway.concurrency.collector import LARGE
from gateway.config.source import ConfigError, load_settings
from gateway.process.server import Server
from tests.fault.behaviours import result
from tests.fault.methods import ECHO, Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import settings
from tests.protocol.embedding import Open, served, within
from tests.protocol.sites import PUBLIC, TOKENS
from tests.protocol.talk import Client, modern_headers, modern_request
from tests.tables import each_row
from tests.waiting import PATIENCE

CALL: Final = {"name": "add", "arguments": {"a": 2, "b": 3}}
GW: Final = f"server.public_url={PUBLIC}/gw"


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


@each_row
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
    gc.unfreeze()  # what other tests left frozen may be freed meanwhile
    before = of_the_process()
    backend.on("rpc.discover", result(openrpc([Rpc(f"m{number}") for number in range(LARGE)])))
    for admin in (False, True):
        app = aiohttp_app(settings(backend.url), admin=admin)
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
