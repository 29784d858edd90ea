"""The unit for systemd, as systemd itself judges it, and what the gateway tells systemd while it runs."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.test_reload import written
from tests.e2e.test_workers import options
from tests.fault.scripted import ScriptedBackend
from tests.front import Front
from tests.program import Program, settings
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "jsonrpc-mcp-gateway.service"
INSTALLED = "/opt/jsonrpc-mcp-gateway/bin"
EXPOSED = 1.5
"""The most that `systemd-analyze security` may find: 10 is a service without any protection."""


class Manager:
    """What systemd is to a service: a socket for its notices. ``folder`` is None for a name without a file."""

    def __init__(self, folder: Path | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind("" if folder is None else str(folder / "notify"))  # Linux chooses a name
        address = self._socket.getsockname()
        self.environ = {"NOTIFY_SOCKET": address if folder else "@" + address[1:].decode()}

    async def told(self) -> list[str]:
        """The lines of the next notice."""
        async with asyncio.timeout(PATIENCE):
            return (await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode().split("\n")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["file", "abstract"])
async def manager(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Manager]:
    manager = Manager(tmp_path if request.param == "file" else None)
    yield manager
    manager.close()


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is missing: run tests/install.sh, or install the Debian package systemd"
    return subprocess.run([program, "--no-pager", *arguments], capture_output=True, text=True, timeout=PATIENCE)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    program = Path(sys.executable).parent
    unit.write_text(UNIT.read_text().replace(INSTALLED, str(program)))
    assert str(program) in unit.read_text()
    done = analyzed("verify", str(unit))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit.write_text(unit.read_text().replace("DynamicUser=yes", "DynamicUser=maybe"))
    assert analyzed("verify", str(unit)).returncode, "it looks at what it is given"


def test_the_unit_is_hardened() -> None:
    done = analyzed("security", "--offline=true", str(UNIT))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSED, done.stdout


async def test_the_gateway_serves_where_no_memory_may_be_written_and_run(backend: ScriptedBackend) -> None:
    """Libraries that compile at run time, such as some of regular expressions, end there."""
    program = Program("serve", *settings(backend.url), module="tests.e2e.write_xor_execute")
    async with program, aiohttp.ClientSession() as session:
        await program.logged("listing refreshed")
        front = Front((await program.logged("gateway started"))["port"], session)
        assert (await front.call("modern", "add", {"a": 2, "b": 3})).value == {"sum": 5}


async def test_systemd_is_told_of_the_start_of_each_reload_and_of_the_end(
    backend: ScriptedBackend, manager: Manager, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.yaml"
    written(file, backend.url)
    async with Program("serve", "--config", str(file), environ=manager.environ) as program:
        assert await manager.told() == ["READY=1"]
        await program.logged("gateway started")
        for text in (file.read_text(), "no: configuration"):  # one that is refused is over, too
            file.write_text(text)
            program.signal(signal.SIGHUP)
            reloading, when = await manager.told()
            assert (reloading, when.partition("=")[0]) == ("RELOADING=1", "MONOTONIC_USEC")
            assert await manager.told() == ["READY=1"]
        program.signal(signal.SIGTERM)
        told = await manager.told()
        while told != ["STOPPING=1"]:  # the change of the file was a reload of its own
            assert told == ["READY=1"] or told[0] == "RELOADING=1"
            told = await manager.told()
        assert await program.ended() == 0


async def test_the_parent_of_several_workers_speaks_for_all(backend: ScriptedBackend, tmp_path: Path) -> None:
    """systemd takes notices of the main process alone."""
    manager = Manager(tmp_path)
    with RedisServer() as redis:
        async with Program("serve", *options(backend, tmp_path, redis), environ=manager.environ) as program:
            assert await manager.told() == ["READY=1"]
            await program.logged("worker started", 2)
            program.signal(signal.SIGTERM)
            assert await manager.told() == ["STOPPING=1"]
            assert await program.ended() == 0
            with pytest.raises(BlockingIOError):
                manager._socket.recv(4096)
    manager.close()


async def test_a_manager_that_is_gone_stops_nobody(backend: ScriptedBackend, tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "nobody")}
    async with Program("serve", *settings(backend.url), environ=environ) as program:
        await program.logged("listing refreshed")
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
