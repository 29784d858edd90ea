"""How long a gateway takes to stop, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from gateway.config import load_settings
from gateway.server import Server
from tests.clock import Clock, by_hand
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, ground


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
