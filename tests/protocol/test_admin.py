"""The admin port: /livez, /readyz and /refresh; test_status.py has what they say in bad states."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientConnectorError, ClientSession

from gateway.process.server import Server
from tests.each import each
from tests.fault.behaviours import Hang, error, result
from tests.fault.methods import Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import Front
from tests.protocol.conftest import Start, settings
from tests.protocol.talk import Answer, Client
from tests.waiting import PATIENCE


@pytest.fixture
async def waiting(backend: ScriptedBackend) -> AsyncIterator[Server]:
    """A gateway whose backend has not answered the first listing yet."""
    backend.on("rpc.discover", Hang("nothing"))
    gateway = Server(settings(backend.url))
    await gateway.start()
    async with asyncio.timeout(PATIENCE):
        await backend.called("rpc.discover")
    yield gateway
    backend.release.set()
    await gateway.stop()


async def asked(session: ClientSession, gateway: Server, path: str) -> Answer:
    return await Client(session, gateway.admin_port).get(path)


async def test_it_is_alive_but_not_ready_until_the_first_listing_attempt_is_over(
    session: ClientSession, backend: ScriptedBackend, waiting: Server
) -> None:
    """A rollout must not swap a warm replica for a cold one."""
    assert (await asked(session, waiting, "/livez")).status == 200
    unready = await asked(session, waiting, "/readyz")
    assert (unready.status, unready.body) == (503, b"the first listing has not come yet\n")
    backend.release.set()
    async with asyncio.timeout(PATIENCE):
        await waiting.wait_until_listed()
    assert (await asked(session, waiting, "/readyz")).status == 200


async def test_the_repr_of_a_gateway_says_what_each_service_waits_for(waiting: Server) -> None:
    assert repr(waiting).startswith(f"<Server port={waiting.port} admin_port={waiting.admin_port} services=[<Service /")
    assert "the first listing has not come yet" in repr(waiting)


@each("knobs", {"listed": (), "not listable": ("backend.listing.dialect=drupal",)})
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


@each(
    ("knobs", "here"),
    [
        (("server.host=127.0.0.2",), "127.0.0.1"),
        (("server.admin_host=127.0.0.2",), "127.0.0.2"),
    ],
)
async def test_the_admin_port_is_on_an_address_of_its_own(
    start: Start, session: ClientSession, knobs: tuple[str, ...], here: str
) -> None:
    gateway = await start(*knobs)
    for host in ("127.0.0.1", "127.0.0.2"):
        if host == here:
            async with session.get(f"http://{host}:{gateway.admin_port}/livez") as answer:
                assert answer.status == 200
        else:
            with pytest.raises(ClientConnectorError):
                await session.get(f"http://{host}:{gateway.admin_port}/livez")


async def test_any_host_may_ask_the_admin_port(session: ClientSession, start: Start) -> None:
    """Probes come by the pod's address; the check of Host is the public port's (security.md "Read first", H06)."""
    gateway = await start()
    answer = await Client(session, gateway.admin_port).get("/livez", Host="10.1.2.3:9090")
    assert answer.status == 200


@each("path", ["/mcp", "/mcp/tools/list", "/mcp/tools/add"])
async def test_the_admin_port_serves_no_tools(session: ClientSession, start: Start, path: str) -> None:
    gateway = await start()
    for verb in ("GET", "POST"):
        assert (await Client(session, gateway.admin_port).send(verb, path)).status == 404


async def test_asked_verbosely_it_names_the_background_work_and_what_it_ended_with(
    session: ClientSession, gateway: Server
) -> None:
    ended = asyncio.Event()

    async def fails() -> None:
        ended.set()
        raise ZeroDivisionError

    gateway.background.start("sweeping", fails)
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    answer = await asked(session, gateway, "/readyz?verbose")
    assert answer.status == 200
    ready, *_, listing, history, sweeping, _ = answer.body.decode().splitlines()
    assert (ready, listing, history) == ("ok", "listing: running", "history for the page: running")
    assert sweeping.startswith("sweeping: ")
    assert "ended unexpectedly" in sweeping
    assert sweeping.endswith("ZeroDivisionError")
    assert (await asked(session, gateway, "/readyz")).body == b"ok\n"


async def test_asked_verbosely_it_counts_the_calls_and_streams_that_are_under_way(
    session: ClientSession, gateway: Server, backend: ScriptedBackend
) -> None:
    backend.on("add", Hang("nothing"))
    client = Client(session, gateway.port)
    before = await under_way(session, gateway)
    assert before[:2] == (0, 0)
    async with asyncio.timeout(PATIENCE):
        async with client.listen({"toolsListChanged": True}) as stream:
            await stream.message()
            calling = asyncio.create_task(client.modern("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}}))
            await backend.called("add")
            calls, streams, tasks = await under_way(session, gateway)
            assert (calls, streams) == (1, 1)
            assert tasks > before[2]
            backend.release.set()
            await calling
        while (await under_way(session, gateway))[:2] != (0, 0):
            pass


async def under_way(session: ClientSession, gateway: Server) -> tuple[int, ...]:
    """Calls, streams and tasks."""
    last = (await asked(session, gateway, "/readyz?verbose")).body.decode().splitlines()[-1]
    found = re.fullmatch(r"under way: (\d+) calls, (\d+) streams, (\d+) tasks", last)
    assert found is not None, last
    return tuple(map(int, found.groups()))


# --- listing anew ---------------------------------------------------------------------------------------------


async def refreshed(session: ClientSession, gateway: Server, **headers: str) -> Answer:
    async with asyncio.timeout(PATIENCE):
        return await Client(session, gateway.admin_port).send("POST", "/refresh", headers=headers)


async def test_a_refresh_lists_anew_at_once(session: ClientSession, gateway: Server, backend: ScriptedBackend) -> None:
    assert "novel" not in await Front(gateway.port, session).tools()
    backend.on("rpc.discover", result(openrpc((Rpc("novel"),))))
    answer = await refreshed(session, gateway)
    assert (answer.status, answer.body) == (200, b"listed anew\n")
    assert "novel" in await Front(gateway.port, session).tools()


async def test_a_refresh_asks_once_more_where_a_listing_is_under_way(
    session: ClientSession, waiting: Server, backend: ScriptedBackend
) -> None:
    """The listing under way may have been answered before the change."""
    asking = asyncio.create_task(refreshed(session, waiting))
    backend.on("rpc.discover", result(openrpc((Rpc("novel"),))))
    # An answer of the admin port that was asked later: the refresh has been taken up.
    await asked(session, waiting, "/livez")
    backend.release.set()
    assert (await asking).status == 200
    assert list(await Front(waiting.port, session).tools()) == ["novel"]


async def test_a_refresh_that_brings_nothing_says_why(
    session: ClientSession, gateway: Server, backend: ScriptedBackend
) -> None:
    tools = await Front(gateway.port, session).tools()
    backend.on("rpc.discover", error(-32000, "out of \x1b[2J\u202eorder"))
    answer = await refreshed(session, gateway)
    assert answer.status == 502
    assert b"rpc.discover: error -32000: out of [2Jorder" in answer.body
    assert await Front(gateway.port, session).tools() == tools


async def test_what_the_service_says_is_no_line_of_its_own(
    session: ClientSession, start: Start, backend: ScriptedBackend
) -> None:
    backend.on("rpc.discover", error(-32000, "out of order\r\nok\n12 tools, listed\u2028ok"))
    gateway = await start()
    for path in ("/readyz", "/readyz?verbose", "/status"):
        said = (await asked(session, gateway, path)).body.decode()
        assert "out of order ok 12 tools, listed ok" in said
        assert "ok" not in said.splitlines()


async def test_a_page_in_a_browser_cannot_have_the_backend_listed(
    session: ClientSession, gateway: Server, backend: ScriptedBackend
) -> None:
    answer = await refreshed(session, gateway, Origin="https://evil.example")
    assert answer.status == 403
    assert backend.calls("rpc.discover") == 0
