"""``serve`` with several workers on a real Redis, as processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from tests.e2e.test_life_cycle import SUM, Load, ran
from tests.e2e.test_reload import RELOADED, until
from tests.e2e.test_start_and_stop import http_status, nobody_listens
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front
from tests.program import Program, run, settings
from tests.redis_server import RedisServer

CALLERS = 8
ENDED = "a worker ended and is replaced"
STARTED = "worker started"


def options(backend: ScriptedBackend, folder: Path, redis: RedisServer, *more: str) -> list[str]:
    secret = folder / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    secret.chmod(0o600)
    shared = ("server.workers=2", f"server.secret_file={secret}", f"store.url={redis.url}")
    return settings(backend.url, *shared, *more)


@asynccontextmanager
async def two_workers(
    backend: ScriptedBackend, folder: Path, *more: str, config: Path | None = None
) -> AsyncIterator[tuple[Program, Front, str]]:
    """The parent, its public port, and the URL of its admin port."""
    with RedisServer() as redis:
        of_file = () if config is None else ("--config", str(config))
        program = Program("serve", *of_file, *options(backend, folder, redis, *more))
        async with program, aiohttp.ClientSession() as session:
            started = await program.logged("gateway started")
            await program.logged(STARTED, 2)
            yield program, Front(started["port"], session), f"http://127.0.0.1:{started['admin_port']}"


async def processes(admin: str) -> list[int]:
    """The process of each worker that is ready."""
    async with aiohttp.ClientSession() as session, session.get(f"{admin}/readyz?verbose") as response:
        text = await response.text()
    return [int(number) for number in re.findall(r"^worker \d: ready, process (\d+)$", text, re.MULTILINE)]


async def both(admin: str) -> list[int]:
    """The processes of both workers, once both are ready."""

    async def are_ready() -> bool:
        return len(await processes(admin)) == 2

    await until(are_ready)
    return await processes(admin)


async def test_a_worker_that_is_killed_under_load_loses_its_own_calls_in_flight_alone(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    """Calls that wait at its socket are answered by its successor. No call runs twice. In the end both workers finish
    what is under way."""
    load = Load()
    async with two_workers(backend, tmp_path, "limits.invocation=100000/second") as (program, gateway, admin):
        callers = [asyncio.create_task(load.call(gateway)) for _ in range(CALLERS)]
        await load.more()
        killed = (await both(admin))[0]
        os.kill(killed, signal.SIGKILL)
        ended = await program.logged(ENDED)
        assert (ended["worker"], ended["exit_code"]) == (1, 128 + signal.SIGKILL)
        assert await http_status(f"{admin}/readyz") == 200
        assert (await program.logged(STARTED, 3))["worker"] == 1
        await load.more()
        program.signal(signal.SIGHUP)
        reloaded = [(await program.logged(RELOADED, number))["worker"] for number in (1, 2)]
        assert sorted(reloaded) == [1, 2]
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        requests = [json.loads(line) for line in program.lines if '"event":"request"' in line]
        assert {entry["worker"] for entry in requests} == {1, 2}
        assert load.wrong == []
        # Each caller has one call at a time.
        assert 0 < len(load.broken) <= CALLERS
        counts = ran(backend)
        assert [number for number, count in counts.items() if count > 1] == []
        assert [number for number in load.answered if counts[number] != 1] == []
        async with aiohttp.ClientSession() as session, session.post(f"{admin}/refresh") as response:
            assert (response.status, await response.text()) == (200, "listed anew\n")
        await _finishes_what_is_under_way(backend, program, gateway, admin)


async def test_a_worker_that_hangs_is_killed_and_replaced_and_costs_no_call_on_a_new_connection(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    """The other worker gives the socket back, and goes on."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        two_workers(backend, tmp_path, "limits.invocation=100000/second") as (program, gateway, admin),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        front = Front(gateway.port, session)
        hung = (await both(admin))[0]
        os.kill(hung, signal.SIGSTOP)
        called = await asyncio.gather(*(front.call("rest", "add", SUM) for _ in range(4 * CALLERS)))
        assert [one.value for one in called] == [{"sum": 5}] * (4 * CALLERS)
        killed = await program.logged("a worker hangs and is killed")
        assert (killed["worker"], killed["process"]) == (1, hung)
        assert (await program.logged(STARTED, 3))["worker"] == 1
        assert hung not in await both(admin)
        called = await asyncio.gather(*(front.call("rest", "add", SUM) for _ in range(4 * CALLERS)))
        assert [one.value for one in called] == [{"sum": 5}] * (4 * CALLERS)
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
        assert "Traceback" not in program.output


async def _finishes_what_is_under_way(backend: ScriptedBackend, program: Program, gateway: Front, admin: str) -> None:
    before = len([request for request in backend.requests if request.method == "add"])
    backend.default = Hang("nothing")
    calls = [asyncio.create_task(gateway.call(surface, "add", SUM)) for surface in SURFACES]
    await backend.called("add", before + len(calls))
    program.signal(signal.SIGTERM)
    await program.logged("stopping", 3)  # the parent and both workers
    assert await http_status(f"{admin}/readyz") == 503
    assert await http_status(f"{admin}/livez") == 200
    await nobody_listens(urlsplit(gateway.base).port)
    backend.release.set()
    assert [(await call).value for call in calls] == [{"sum": 5}] * 3
    assert await program.ended() == 0
    assert "Traceback" not in program.output


async def test_workers_whose_parent_is_killed_finish_what_is_under_way_and_end(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    backend.default = Hang("nothing")
    async with two_workers(backend, tmp_path) as (program, gateway, _):
        call = asyncio.create_task(gateway.call("rest", "add", SUM))
        await backend.called("add")
        program.signal(signal.SIGKILL)
        await nobody_listens(urlsplit(gateway.base).port)
        backend.release.set()
        assert (await call).value == {"sum": 5}
        await program.logged("stopped", 2)  # workers write to the standard error of their parent
        await program.ended()


async def test_where_no_worker_can_start_serve_ends_as_one_process_would(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    with RedisServer() as redis:
        several = options(backend, tmp_path, redis, f"catalog.fallback={tmp_path / 'absent'}")
        ended = await run("serve", *several)
    assert ended.code == 2
    assert ended.err.count("catalog.fallback") == 1
    assert "Traceback" not in ended.err
