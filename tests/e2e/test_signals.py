"""What signals do to a running program, also on a system that has no handlers for them."""

from __future__ import annotations

import asyncio
import itertools
import signal
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.e2e.test_start_and_stop import commands, nobody_listens, typed
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import Front
from tests.program import Program, serving, settings
from tests.services.process import free_port

STOPPING = (signal.SIGTERM, signal.SIGINT)
BARE = "tests.e2e.bare_system"


@pytest.mark.parametrize(("first", "second"), list(itertools.product(STOPPING, STOPPING)))
async def test_a_second_signal_ends_serve_at_once(
    backend: ScriptedBackend, first: signal.Signals, second: signal.Signals
) -> None:
    """The call under way would have ten minutes to finish."""
    backend.default = Hang("nothing")
    async with serving(backend.url, "server.shutdown_timeout=10m", "backend.timeout=1h") as (program, gateway):
        call = asyncio.create_task(gateway.call("rest", "add", {"a": 2, "b": 3}))
        await backend.called("add")
        program.signal(first)
        await program.logged("stopping")
        await nobody_listens(urlsplit(gateway.base).port)
        program.signal(second)
        assert await program.ended() == 128 + second
        assert "Traceback" not in program.output
        with pytest.raises(aiohttp.ClientError):
            await call


@pytest.mark.parametrize("number", STOPPING)
async def test_serve_starts_answers_and_stops_without_signal_handlers(
    backend: ScriptedBackend, number: signal.Signals
) -> None:
    async with Program("serve", *settings(backend.url), module=BARE) as program, aiohttp.ClientSession() as session:
        gateway = Front((await program.logged("gateway started"))["port"], session)
        await program.logged("listing refreshed")
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}
        program.signal(number)
        assert await program.ended() == 0
        await program.logged("stopped")
        assert "Traceback" not in program.output


@pytest.mark.parametrize("number", STOPPING)
async def test_demo_starts_answers_and_stops_without_signal_handlers(number: signal.Signals) -> None:
    async with Program("demo", "--port", str(free_port()), module=BARE) as program:
        await program.said("Ctrl-C ends it.")
        assert "books.search" in await typed(commands(program.output)[0])
        program.signal(number)
        assert await program.ended() == 0
        assert "Traceback" not in program.output
