"""The admin port: /livez and /readyz (design.md §6 "Ready")."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession

from gateway.app import Gateway
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start, settings
from tests.protocol.talk import Answer, Client


@pytest.fixture
async def waiting(backend: ScriptedBackend) -> AsyncIterator[Gateway]:
    """A gateway whose backend has not answered the first listing yet."""
    backend.on("rpc.discover", Hang("nothing"))
    gateway = Gateway(settings(backend.url))
    await gateway.start()
    async with asyncio.timeout(10):
        await backend.called("rpc.discover")
    yield gateway
    backend.release.set()
    await gateway.stop()


async def asked(session: ClientSession, gateway: Gateway, path: str) -> Answer:
    return await Client(session, gateway.admin_port).get(path)


async def test_it_is_alive_but_not_ready_until_the_first_listing_attempt_is_over(
    session: ClientSession, backend: ScriptedBackend, waiting: Gateway
) -> None:
    """A rollout must not swap a warm replica for a cold one."""
    assert (await asked(session, waiting, "/livez")).status == 200
    unready = await asked(session, waiting, "/readyz")
    assert (unready.status, unready.body) == (503, b"the first listing is still awaited\n")
    backend.release.set()
    async with asyncio.timeout(10):
        await waiting.listed()
    assert (await asked(session, waiting, "/readyz")).status == 200


@pytest.mark.parametrize("knobs", [(), ("backend.listing.dialect=drupal",)], ids=["listed", "not listable"])
async def test_it_is_ready_whatever_the_attempt_came_to(
    session: ClientSession, start: Start, knobs: tuple[str, ...]
) -> None:
    gateway = await start(*knobs)
    assert (await asked(session, gateway, "/livez")).status == 200
    assert (await asked(session, gateway, "/readyz")).status == 200


async def test_a_dead_backend_does_not_make_it_unready(
    session: ClientSession, start: Start, backend: ScriptedBackend
) -> None:
    """Ready is never the backend's health: a restart would not mend it."""
    gateway = await start(url=backend.refused_url)
    assert (await asked(session, gateway, "/livez")).status == 200
    assert (await asked(session, gateway, "/readyz")).status == 200


async def test_any_host_may_ask_the_admin_port(session: ClientSession, start: Start) -> None:
    """Probes come by the pod's address; the check of Host is the public port's (security.md "Read first", H06)."""
    gateway = await start()
    answer = await Client(session, gateway.admin_port).get("/livez", Host="10.1.2.3:9090")
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/tools/list", "/mcp/tools/add"])
async def test_the_admin_port_serves_no_tools(session: ClientSession, start: Start, path: str) -> None:
    gateway = await start()
    for verb in ("GET", "POST"):
        assert (await Client(session, gateway.admin_port).send(verb, path)).status == 404


async def test_asked_verbosely_it_names_the_background_work_and_what_it_ended_with(
    session: ClientSession, gateway: Gateway
) -> None:
    ended = asyncio.Event()

    async def fails() -> None:
        ended.set()
        raise ZeroDivisionError

    gateway.background.start("sweeping", fails)
    async with asyncio.timeout(10):
        await ended.wait()
    answer = await asked(session, gateway, "/readyz?verbose")
    assert answer.status == 200
    ready, listing, sweeping = answer.body.decode().splitlines()
    assert (ready, listing) == ("ok", "listing: running")
    assert sweeping.startswith("sweeping: ")
    assert "ended unexpectedly" in sweeping
    assert sweeping.endswith("ZeroDivisionError")
    assert (await asked(session, gateway, "/readyz")).body == b"ok\n"
