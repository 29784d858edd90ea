"""A log that cannot be written costs no answer, no background work and no way to end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import aiohttp
import pytest

from tests.configuring import put
from tests.fault.scripted import ScriptedBackend
from tests.front import Called, Front
from tests.program import started
from tests.services.process import free_port
from tests.waiting import PATIENCE, until

Trouble: TypeAlias = Literal["the disk is full", "the reader is gone", "nobody reads"]
TROUBLES: Final[tuple[Trouble, ...]] = ("the disk is full", "the reader is gone", "nobody reads")
CALLS: Final = 800
"""Their lines are more than a pipe holds."""


@contextmanager
def output(trouble: Trouble) -> Iterator[int]:
    """Where both streams of a process go."""
    if trouble == "the disk is full":
        with Path("/dev/full").open("wb") as full:
            yield full.fileno()
        return
    reading, writing = os.pipe()
    if trouble == "the reader is gone":
        os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)
        if trouble == "nobody reads":
            os.close(reading)


def written(file: Path, backend: ScriptedBackend, ports: tuple[int, int], exclude: str) -> None:
    put(
        file,
        f"""\
backend: {{url: '{backend.url}'}}
server: {{port: {ports[0]}, admin_port: {ports[1]}}}
auth: {{mode: off}}
catalog: {{ttl: 200ms, exclude: [{exclude}]}}
limits: {{discovery: 100000/minute, invocation: 100000/minute}}
""",
    )


async def said(session: aiohttp.ClientSession, url: str, text: str) -> None:
    """Return once a page says this."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with session.get(url) as response:
                    if text in await response.text():
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.02)


async def gone(gateway: Front, tool: str) -> None:
    await until(gateway.tools, lambda tools: tool not in tools)


async def some_calls(gateway: Front, number: int) -> list[Called]:
    return [await gateway.call("rest", "add", {"a": 2, "b": 3}) for _ in range(number)]


@asynccontextmanager
async def running(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_calls_are_answered_work_goes_on_and_a_signal_ends_it(tmp_path: Path, trouble: Trouble) -> None:
    file, ports = tmp_path / "gateway.yaml", (free_port(), free_port())
    async with ScriptedBackend() as backend, aiohttp.ClientSession() as session:
        written(file, backend, ports, "")
        with output(trouble) as streams:
            process = await started("serve", "--config", str(file), output=streams)
        async with running(process):
            gateway, admin = Front(ports[0], session), f"http://127.0.0.1:{ports[1]}/readyz?verbose"
            await said(session, admin, "ok\n")
            batches = await asyncio.gather(*(some_calls(gateway, CALLS // 8) for _ in range(8)))
            assert all(called.value == {"sum": 5} for batch in batches for called in batch)
            assert sum(map(len, batches)) == CALLS
            # Nobody asks for a list, so that it is the background that lists again and again.
            async with asyncio.timeout(PATIENCE):
                await backend.called("rpc.discover", backend.calls("rpc.discover") + 3)
            written(file, backend, ports, "echo")
            await gone(gateway, "echo")
            async with session.get(admin) as response:
                state = (await response.text()).splitlines()
            assert state[0] == "ok"
            jobs = [
                "history for the page: running",
                "listing: running",
                "reload: running",
                "key files: running",
                "listing on demand: running",
            ]
            assert sorted(state[-6:-1]) == sorted(jobs)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0


async def test_a_pipe_that_is_read_late_has_every_line(tmp_path: Path) -> None:
    file, ports = tmp_path / "gateway.yaml", (free_port(), free_port())
    reading, writing = os.pipe()
    async with ScriptedBackend() as backend, aiohttp.ClientSession() as session:
        written(file, backend, ports, "")
        process = await started("serve", "--config", str(file), output=writing)
        os.close(writing)
        async with running(process):
            await said(session, f"http://127.0.0.1:{ports[1]}/readyz", "ok\n")
            await some_calls(Front(ports[0], session), CALLS)
            with os.fdopen(reading, "rb") as stream:
                process.send_signal(signal.SIGTERM)
                lines = await asyncio.to_thread(stream.readlines)
            assert sum(b'"path":"/mcp/tools/invoke","status":200' in line for line in lines) == CALLS
            assert b'"event":"stopped"' in lines[-1]
