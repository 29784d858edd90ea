"""``serve`` and ``demo`` from start to signal: what they print works, and what is under way is finished."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import signal
import socket
from urllib.parse import urlsplit

import aiohttp
import pytest

from gateway.cli.demo import ADMIN_PORT
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface
from tests.program import Program, serving, settings
from tests.services.launch import openrpc_app
from tests.services.process import free_port, require_program
from tests.waiting import PATIENCE

SECRET = "hunter2-never-print-this"
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


async def http_status(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


async def nobody_listens(port: int | None) -> None:
    """Return when connections are refused."""
    with contextlib.suppress(ConnectionRefusedError):
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await asyncio.sleep(0.01)


@SIGNALS
async def test_a_signal_ends_serve_with_0(backend: ScriptedBackend, number: signal.Signals) -> None:
    async with serving(backend.url) as (program, _):
        program.signal(number)
        assert await program.ended() == 0
        assert "Traceback" not in program.output
        await program.logged("stopped")


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_under_way_is_finished_before_serve_ends(backend: ScriptedBackend, surface: Surface) -> None:
    backend.default = Hang("nothing")
    async with serving(backend.url) as (program, gateway), asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        call = group.create_task(gateway.call(surface, "add", {"a": 2, "b": 3}))
        await backend.called("add")
        program.signal(signal.SIGTERM)
        await nobody_listens(urlsplit(gateway.base).port)
        assert not call.done()
        backend.release.set()
        assert (await call).value == {"sum": 5}
        assert await program.ended() == 0


async def test_a_real_services_slow_call_is_finished_before_serve_ends() -> None:
    with openrpc_app() as service:
        async with serving(service.url) as (program, gateway), asyncio.TaskGroup() as group:
            calls = [group.create_task(gateway.call(surface, "slow", {"seconds": 1})) for surface in SURFACES]
            # An answer to a later request: the three before it have been taken up.
            await gateway.call("rest", "ping", {})
            program.signal(signal.SIGTERM)
            assert await program.ended() == 0
            assert [(await call).value for call in calls] == [1, 1, 1]


async def test_a_call_that_outlasts_the_patience_is_cut_off(backend: ScriptedBackend) -> None:
    backend.default = Hang("nothing")
    async with serving(backend.url, "server.shutdown_timeout=100ms") as (program, gateway):
        call = asyncio.ensure_future(gateway.call("rest", "add", {"a": 2, "b": 3}))
        await backend.called("add")
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
        with pytest.raises(aiohttp.ClientError):
            await call


async def test_serve_starts_without_its_backend_and_answers_503_with_a_time_to_return(backend: ScriptedBackend) -> None:
    async with Program("serve", *settings(backend.refused_url)) as program, aiohttp.ClientSession() as session:
        started = await program.logged("gateway started")
        failed = await program.logged("listing failed")
        assert failed["steps"] == ["rpc.discover: connection refused"]
        gateway = Front(started["port"], session)
        called = await gateway.call("rest", "add", {})
        assert (called.status, called.code) == (503, "catalog_unavailable")
        assert int(called.headers["Retry-After"]) >= 1
        assert await http_status(f"http://127.0.0.1:{started['admin_port']}/readyz") == 200
        assert await http_status(f"http://127.0.0.1:{started['admin_port']}/livez") == 200


async def test_the_log_shows_no_secret(backend: ScriptedBackend) -> None:
    knobs = (
        "backend.credentials.mode=static",
        f"backend.credentials.send.headers.Authorization=Bearer {SECRET}",
        f'backend.credentials.send.params=["token:{SECRET}"]',
        "telemetry.log.level=debug",
    )
    async with serving(backend.url, *knobs) as (program, gateway):
        for surface in SURFACES:
            for tool in ("add", "fail", "nope"):
                await gateway.call(surface, tool, {"a": 2, "b": 3} if tool == "add" else {})
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
        assert backend.requests[-1].headers["Authorization"] == f"Bearer {SECRET}"
        assert SECRET not in program.output
        assert all(json.loads(line)["event"] for line in program.lines)


def commands(printed: str) -> list[list[str]]:
    """The curl commands of a text, as a shell would split them."""
    joined = printed.replace("\\\n", " ")
    return [shlex.split(line) for line in joined.splitlines() if line.startswith("  curl ")]


async def typed(command: list[str]) -> str:
    """What a command prints."""
    require_program(command[0], command[0])
    process = await asyncio.create_subprocess_exec(*command, "--fail-with-body", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0, (command, out)
    return out.decode()


async def test_the_commands_that_demo_prints_work_as_printed() -> None:
    async with Program("demo", "--port", str(free_port())) as program:
        await program.said("Ctrl-C ends it.")
        listed, found, got = [json.loads(await typed(command)) for command in commands(program.output)]
        assert [tool["name"] for tool in listed["tools"]] == ["books.get", "books.search", "orders.create"]
        assert [book["author"] for book in found["result"]] == ["Jules Verne"]
        assert got["result"]["title"] == "Moby-Dick"
        ready = re.search(r"http://\S+/readyz", program.output)
        assert ready is not None
        assert await http_status(ready[0]) == 200


async def test_demo_takes_a_free_port_where_its_own_is_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with Program("demo", "--port", str(port)) as program:
            await program.said("Ctrl-C ends it.")
            assert f":{port}/" not in program.output
            assert "books.search" in await typed(commands(program.output)[0])


async def test_demo_may_have_the_port_that_its_health_would_be_at() -> None:
    async with Program("demo", "--port", str(ADMIN_PORT)) as program:
        await program.said("Ctrl-C ends it.")
        assert "books.search" in await typed(commands(program.output)[0])


@SIGNALS
async def test_a_signal_ends_demo_with_0(number: signal.Signals) -> None:
    async with Program("demo", "--port", str(free_port())) as program:
        await program.said("Ctrl-C ends it.")
        program.signal(number)
        assert await program.ended() == 0
        assert "Traceback" not in program.output
