"""A reload puts other services in the place of those that run: nothing that is under way is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession

from gateway.config.source import ConfigError, load_settings
from gateway.discovery.views import MAX_TOOLS
from gateway.process.server import Server
from gateway.settings import Settings
from tests.fault.behaviours import Hang
from tests.fault.methods import ADD, ECHO, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start, settings
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers, modern_headers, modern_request, request
from tests.protocol.test_streams_alone import begun, opened, retired
from tests.waiting import PATIENCE

CALL = {"name": "add", "arguments": {"a": 2, "b": 3}}
PROGRESS = {**CALL, "_meta": {"progressToken": "p"}}
LATEST = LEGACY[0]
OTHER = "limits.discovery=500/minute"
"""A knob that takes another service, before the same backend."""


def several(services: Mapping[str, Mapping[str, Any]]) -> Settings:
    tree = {"services": {name: {"backend": {"url": url, "listing": {"dialect": "openrpc"}}, **knobs}
                         for name, knobs in services.items() for url in [knobs["url"]]}}  # fmt: skip
    for section in tree["services"].values():
        del section["url"]
    return Settings.model_validate({**tree, "server": {"port": 0, "admin_port": 0}, "auth": {"mode": "off"}})


@asynccontextmanager
async def running(made: Settings) -> AsyncIterator[Server]:
    server = Server(made)
    await server.start()
    try:
        await server.wait_until_listed()
        yield server
    finally:
        await server.stop()


async def calling(client: Client, era: str) -> Any:
    if era == MODERN:
        return await client.mcp(modern_request("tools/call", CALL), modern_headers("tools/call", "add"))
    return await client.mcp(request("tools/call", CALL), legacy_headers(era))


@pytest.mark.parametrize("era", [MODERN, LATEST])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same backend", "another backend"])
async def test_a_call_under_way_is_answered_by_the_service_that_it_began_with(
    start: Start, session: ClientSession, backend: ScriptedBackend, era: str, elsewhere: bool
) -> None:
    gateway = await start()
    client = Client(session, gateway.port)
    backend.on("add", Hang("nothing"))
    async with ScriptedBackend() as other, asyncio.timeout(PATIENCE):
        call = asyncio.create_task(calling(client, era))
        await backend.called("add")
        await gateway.reload(settings(other.url if elsewhere else backend.url, OTHER))
        assert not call.done()
        backend.release.set()
        answer = await call
        assert answer.result["structuredContent"] == {"sum": 5}
        await retired(gateway)
        assert (backend.calls("add"), other.calls("add")) == (1, 0)
        assert (await calling(client, era)).result["structuredContent"] == {"sum": 5}
        assert other.calls("add") == int(elsewhere)


async def test_a_call_with_progress_is_answered_on_its_stream_over_a_reload(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start()
    backend.on("add", Hang("nothing"))
    message = modern_request("tools/call", PROGRESS)
    async with Client(session, gateway.port).stream(message, modern_headers("tools/call", "add")) as stream:
        assert (await stream.message())["method"] == "notifications/progress"
        await gateway.reload(settings(backend.url, OTHER))
        backend.release.set()
        assert (await stream.rest())[-1]["result"]["structuredContent"] == {"sum": 5}


async def test_a_client_of_an_older_era_can_cancel_a_call_that_began_before_a_reload(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start("server.public_url=https://gw.example.com")
    client = Client(session, gateway.port)
    headers = legacy_headers(LATEST, await client.initialize(LATEST))
    backend.on("add", Hang("nothing"))
    async with asyncio.timeout(PATIENCE):
        call = asyncio.create_task(client.mcp(request("tools/call", CALL, 7), headers))
        await backend.called("add")
        await gateway.reload(settings(backend.url, OTHER, "server.public_url=https://gw.example.com"))
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await client.mcp(note, headers)).status == 202
        assert (await call).status == 202
        await backend.abandoned.wait()
        await retired(gateway)


async def test_what_was_learned_of_a_backend_stays_over_a_reload_that_leaves_it(
    start: Start, backend: ScriptedBackend
) -> None:
    gateway = await start()
    before = gateway.services[""]
    await gateway.reload(settings(backend.url, OTHER, "catalog.ttl=7m"))
    after = gateway.services[""]
    assert after is not before
    assert after.learned is before.learned
    assert backend.calls("rpc.discover") == 0, "since the start"
    async with ScriptedBackend() as other:
        await gateway.reload(settings(other.url))
        assert gateway.services[""].learned is not after.learned


async def test_a_reload_that_changes_nothing_touches_nothing(start: Start, backend: ScriptedBackend) -> None:
    gateway = await start()
    before = gateway.services[""]
    await gateway.reload(settings(backend.url))
    assert gateway.services[""] is before


async def test_services_come_change_and_go_and_the_others_are_not_touched(session: ClientSession) -> None:
    async with ScriptedBackend([ADD]) as crm, ScriptedBackend([ECHO]) as shop:
        made = {"crm": {"url": crm.url}, "shop": {"url": shop.url}}
        async with running(several(made)) as server:
            first, stays = Client(session, server.port, "/crm"), Client(session, server.port, "/shop")
            async with opened(first, MODERN) as ending, opened(stays, MODERN) as stream:
                await begun(stream, MODERN)
                await begun(ending, MODERN)
                untouched = server.services["/shop"]
                await server.reload(several({"shop": made["shop"], "news": made["crm"]}))
                assert server.services["/shop"] is untouched
                assert [message["result"]["resultType"] for message in await ending.rest()] == ["complete"]
                assert (await calling(first, MODERN)).status == 404
                await server.wait_until_listed()
                assert (await calling(Client(session, server.port, "/news"), MODERN)).status == 200
                await server.refresh_listings()
                await server.reload(several({"shop": {**made["shop"], "catalog": {"exclude": ["echo"]}}}))
                assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_one_faulty_service_keeps_every_other_as_it_is_and_all_faults_are_told(
    session: ClientSession, tmp_path: Any
) -> None:
    many = [Rpc(f"m{number}") for number in range(MAX_TOOLS)]
    async with ScriptedBackend([ADD]) as crm, ScriptedBackend([ADD, *many]) as shop:
        made = {"crm": {"url": crm.url}, "shop": {"url": shop.url, "catalog": {"include": ["add"]}}}
        async with running(several(made)) as server:
            before = dict(server.services)
            faulty = several({
                "crm": {**made["crm"], "limits": {"discovery": "1/minute"}},
                "shop": {**made["shop"], "catalog": {}},
                "news": {**made["crm"], "catalog": {"pin": str(tmp_path / "none.json")}},
            })  # fmt: skip
            with pytest.raises(ConfigError) as caught:
                await server.reload(faulty)
            assert [fault.partition(":")[0] for fault in caught.value.faults] == [
                "services.shop.catalog", "services.news.catalog.pin",
            ]  # fmt: skip
            assert dict(server.services) == before
            for mount in before:
                assert (await calling(Client(session, server.port, mount), MODERN)).status == 200


async def test_from_one_service_at_the_root_to_several_and_back(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start()
    root, below = Client(session, gateway.port), Client(session, gateway.port, "/crm")
    await gateway.reload(several({"crm": {"url": backend.url}}))
    assert [(await calling(client, MODERN)).status for client in (root, below)] == [404, 200]
    await gateway.reload(settings(backend.url))
    assert [(await calling(client, MODERN)).status for client in (root, below)] == [200, 404]


async def test_hosts_and_origins_that_may_call_change_with_a_reload(
    start: Start, client: Client, gateway: Server, backend: ScriptedBackend
) -> None:
    foreign = {"Host": "gw.example.com"}
    assert (await client.send("GET", "/mcp/tools/list", None, foreign)).status == 421
    before = gateway.services[""]
    await gateway.reload(settings(backend.url, "server.allowed_hosts=[gw.example.com]"))
    assert (await client.send("GET", "/mcp/tools/list", None, foreign)).status == 200
    assert gateway.services[""] is before
    assert load_settings(None, [f"backend.url={backend.url}", "auth.mode=off"], environ={}).server.allowed_hosts == ()
