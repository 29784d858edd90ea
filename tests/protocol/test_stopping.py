"""How long a gateway takes to stop, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import pytest

from gateway.config.source import load_settings
from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Called, Front, Surface, ground
from tests.protocol.talk import MODERN, Client
from tests.protocol.test_streams_alone import begun, opened

TWO_AND_THREE = {"a": 2, "b": 3}


class Stopping(NamedTuple):
    """A gateway with a call that hangs, and that is told to stop."""

    gateway: Server
    backend: ScriptedBackend
    session: aiohttp.ClientSession
    call: asyncio.Task[Called]
    stop: asyncio.Task[None]


@asynccontextmanager
async def started(backend: ScriptedBackend, *knobs: str) -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    """A gateway that has listed. The test stops it."""
    async with backend, aiohttp.ClientSession() as session:
        gateway = Server(load_settings(None, ground(backend.url, *knobs), environ={}))
        await gateway.start()
        await gateway.wait_until_listed()
        yield gateway, session


@asynccontextmanager
async def stopping(surface: Surface, *knobs: str) -> AsyncIterator[Stopping]:
    backend = ScriptedBackend(default=Hang("nothing"))
    async with started(backend, "backend.timeout=10m", *knobs) as (gateway, session):
        call = asyncio.create_task(Front(gateway.port, session).call(surface, "add", TWO_AND_THREE))
        await backend.called("add")
        yield Stopping(gateway, backend, session, call, asyncio.create_task(gateway.stop()))


async def stopping_after_a_call(clock: Clock, seconds: float, *knobs: str) -> None:
    """A call that hangs is cut off after so many seconds, and then the gateway has stopped."""
    async with stopping("rest", *knobs) as it:
        if seconds:
            await clock.moves_on(seconds - 0.1)
            assert not it.stop.done()
            assert not it.call.done()
        await clock.moves_on(0.5)
        assert it.stop.done()
        with pytest.raises(aiohttp.ClientError):
            await it.call


@by_hand
async def test_a_gateway_stops_within_its_shutdown_timeout_and_not_twice_that(clock: Clock) -> None:
    await stopping_after_a_call(clock, 10, "server.shutdown_timeout=10s")


@by_hand
async def test_a_shutdown_timeout_of_nothing_cuts_calls_off_at_once(clock: Clock) -> None:
    """aiohttp would wait for ever."""
    await stopping_after_a_call(clock, 0, "server.shutdown_timeout=0s")


@by_hand
async def test_health_is_told_while_calls_finish(clock: Clock) -> None:
    async with stopping("rest") as it:
        await clock.moves_on(1)
        async with it.session.get(f"http://127.0.0.1:{it.gateway.admin_port}/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "stopping\n")
        it.backend.release.set()
        assert (await it.call).value == {"sum": 5}
        await clock.moves_on(1)
        assert it.stop.done()


@by_hand
async def test_a_gateway_serves_on_for_its_drain_delay_and_says_that_it_ends(clock: Clock) -> None:
    """Readiness is 503 at once. Kept connections and new ones are served, each for one more answer; streams stay open
    until the delay is over, and end with their result."""
    knobs = ("server.drain_delay=10s", "server.shutdown_timeout=5s")
    async with started(ScriptedBackend(), *knobs) as (gateway, session):
        front, client = Front(gateway.port, session), Client(session, gateway.port)
        before = await front.call("rest", "add", TWO_AND_THREE)
        assert "Connection" not in before.headers
        async with opened(client, MODERN) as stream:
            await begun(stream, MODERN)
            stop = asyncio.create_task(gateway.stop())
            await clock.moves_on(9)
            async with session.get(f"http://127.0.0.1:{gateway.admin_port}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "stopping\n")
            for surface in SURFACES:
                called = await front.call(surface, "add", TWO_AND_THREE)
                assert (called.value, called.headers["Connection"]) == ({"sum": 5}, "close")
            assert (await client.get("/nowhere")).headers["Connection"] == "close"
            assert not stop.done()
            await clock.moves_on(2)
            assert [message["result"]["resultType"] for message in await stream.rest()] == ["complete"]
        assert stop.done()
        with pytest.raises(aiohttp.ClientConnectorError):
            await front.call("rest", "add", TWO_AND_THREE)


@by_hand
async def test_calls_have_the_shutdown_timeout_after_the_drain_delay(clock: Clock) -> None:
    await stopping_after_a_call(clock, 15, "server.drain_delay=10s", "server.shutdown_timeout=5s")


@by_hand
async def test_the_answer_of_a_call_that_finishes_while_the_gateway_ends_says_so(clock: Clock) -> None:
    async with stopping("modern") as it:
        await clock.moves_on(1)
        it.backend.release.set()
        called = await it.call
        assert (called.value, called.headers["Connection"]) == ({"sum": 5}, "close")
        await clock.moves_on(1)
        assert it.stop.done()


@by_hand
async def test_a_gateway_whose_port_is_taken_does_not_wait_for_its_drain_delay(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        knobs = ground("http://127.0.0.1:1/jsonrpc", "server.drain_delay=10s", f"server.port={port}")
        with pytest.raises(OSError, match="in use"):
            await Server(load_settings(None, knobs, environ={})).start()
        assert clock.now < 1001
