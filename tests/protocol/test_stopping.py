"""How long a gateway takes to stop, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from gateway.config import load_settings
from gateway.server import Server
from tests.clock import Clock, by_hand
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, ground
from tests.protocol.talk import MODERN, Client
from tests.protocol.test_streams_alone import begun, opened


async def stopping_after_a_call(clock: Clock, patience: str, seconds: float) -> None:
    """A call that hangs is cut off when the patience is over, and then the gateway has stopped."""
    async with ScriptedBackend(default=Hang("nothing")) as backend, aiohttp.ClientSession() as session:
        knobs = ground(backend.url, "backend.timeout=10m", f"server.shutdown_timeout={patience}")
        gateway = Server(load_settings(None, knobs, environ={}))
        await gateway.start()
        await gateway.wait_until_listed()
        call = asyncio.create_task(Front(gateway.port, session).call("rest", "add", {"a": 2, "b": 3}))
        await backend.called("add")
        stop = asyncio.create_task(gateway.stop())
        if seconds:
            await clock.moves_on(seconds - 0.1)
            assert not stop.done()
            assert not call.done()
        await clock.moves_on(0.5)
        assert stop.done()
        with pytest.raises(aiohttp.ClientError):
            await call


@by_hand
async def test_a_gateway_stops_within_its_shutdown_timeout_and_not_twice_that(clock: Clock) -> None:
    await stopping_after_a_call(clock, "10s", 10)


@by_hand
async def test_a_shutdown_timeout_of_nothing_cuts_calls_off_at_once(clock: Clock) -> None:
    """aiohttp would wait for ever."""
    await stopping_after_a_call(clock, "0s", 0)


@by_hand
async def test_health_is_told_while_calls_finish(clock: Clock) -> None:
    async with ScriptedBackend(default=Hang("nothing")) as backend, aiohttp.ClientSession() as session:
        gateway = Server(load_settings(None, ground(backend.url, "backend.timeout=10m"), environ={}))
        await gateway.start()
        await gateway.wait_until_listed()
        call = asyncio.create_task(Front(gateway.port, session).call("rest", "add", {"a": 2, "b": 3}))
        await backend.called("add")
        stop = asyncio.create_task(gateway.stop())
        await clock.moves_on(1)
        async with session.get(f"http://127.0.0.1:{gateway.admin_port}/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "stopping\n")
        backend.release.set()
        assert (await call).value == {"sum": 5}
        await clock.moves_on(1)
        assert stop.done()


@by_hand
async def test_a_gateway_serves_on_for_its_drain_delay_and_says_that_it_ends(clock: Clock) -> None:
    """Readiness is 503 at once. Kept connections and new ones are served, each for one more answer; streams stay open
    until the delay is over, and end with their result."""
    async with ScriptedBackend() as backend, aiohttp.ClientSession() as session:
        knobs = ground(backend.url, "server.drain_delay=10s", "server.shutdown_timeout=5s")
        gateway = Server(load_settings(None, knobs, environ={}))
        await gateway.start()
        await gateway.wait_until_listed()
        front, client = Front(gateway.port, session), Client(session, gateway.port)
        before = await front.call("rest", "add", {"a": 2, "b": 3})
        assert "Connection" not in before.headers
        async with opened(client, MODERN) as stream:
            await begun(stream, MODERN)
            stop = asyncio.create_task(gateway.stop())
            await clock.moves_on(9)
            async with session.get(f"http://127.0.0.1:{gateway.admin_port}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "stopping\n")
            for surface in SURFACES:
                called = await front.call(surface, "add", {"a": 2, "b": 3})
                assert (called.value, called.headers["Connection"]) == ({"sum": 5}, "close")
            assert (await client.get("/nowhere")).headers["Connection"] == "close"
            assert not stop.done()
            await clock.moves_on(2)
            assert [message["result"]["resultType"] for message in await stream.rest()] == ["complete"]
        assert stop.done()
        with pytest.raises(aiohttp.ClientConnectorError):
            await front.call("rest", "add", {"a": 2, "b": 3})


@by_hand
async def test_calls_have_the_shutdown_timeout_after_the_drain_delay(clock: Clock) -> None:
    async with ScriptedBackend(default=Hang("nothing")) as backend, aiohttp.ClientSession() as session:
        knobs = ["backend.timeout=10m", "server.drain_delay=10s", "server.shutdown_timeout=5s"]
        gateway = Server(load_settings(None, ground(backend.url, *knobs), environ={}))
        await gateway.start()
        await gateway.wait_until_listed()
        call = asyncio.create_task(Front(gateway.port, session).call("rest", "add", {"a": 2, "b": 3}))
        await backend.called("add")
        stop = asyncio.create_task(gateway.stop())
        await clock.moves_on(14.9)
        assert not stop.done()
        assert not call.done()
        await clock.moves_on(1)
        assert stop.done()
        with pytest.raises(aiohttp.ClientError):
            await call


@by_hand
async def test_the_answer_of_a_call_that_finishes_while_the_gateway_ends_says_so(clock: Clock) -> None:
    async with ScriptedBackend(default=Hang("nothing")) as backend, aiohttp.ClientSession() as session:
        gateway = Server(load_settings(None, ground(backend.url), environ={}))
        await gateway.start()
        await gateway.wait_until_listed()
        call = asyncio.create_task(Front(gateway.port, session).call("modern", "add", {"a": 2, "b": 3}))
        await backend.called("add")
        stop = asyncio.create_task(gateway.stop())
        await clock.moves_on(1)
        backend.release.set()
        called = await call
        assert (called.value, called.headers["Connection"]) == ({"sum": 5}, "close")
        await clock.moves_on(1)
        assert stop.done()


@by_hand
async def test_a_gateway_whose_port_is_taken_does_not_wait_for_its_drain_delay(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        knobs = ground("http://127.0.0.1:1/jsonrpc", "server.drain_delay=10s", f"server.port={port}")
        with pytest.raises(OSError, match="in use"):
            await Server(load_settings(None, knobs, environ={})).start()
        assert clock.now < 1001
