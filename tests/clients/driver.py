"""A client's program as a process: it is given orders, says what it observed, and can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any, Final

from tests.clients.environments import DRIVERS
from tests.clients.rows import Row
from tests.waiting import PATIENCE

_SHOWN_OUTPUT: Final = 4000
_MAX_LINE: Final = 2**20


class Failed(Exception):
    """A cell of the table does not hold; the message says what was seen instead."""


class Driver:
    """The program of one row, started with the first order and again after it was killed."""

    def __init__(self, row: Row, scratch: Path) -> None:
        self._row = row
        self._scratch = scratch
        self._log = scratch / f"{row.name.replace(' ', '-')}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def observe(self, scenario: str, url: str | list[str], token: str, **more: Any) -> dict[str, Any]:
        """What the client saw. ``more`` is for agent frameworks: ``tool`` and ``arguments``. Raises :class:`Failed`
        where it failed, :class:`~tests.clients.environments.ClientMissing` where it cannot be installed."""
        process = await self.order(scenario, url, token, **more)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                line = await process.stdout.readline()
        except TimeoutError:
            await self.kill()
            raise Failed(f"the client is silent for {PATIENCE:.0f} s:\n{self._output()}") from None
        if not line:
            raise Failed(f"the client ended with {await process.wait()}:\n{self._output()}")
        observed: dict[str, Any] = json.loads(line)
        if "failure" in observed:
            raise Failed(f"the client failed:\n{observed['failure']}\n{self._output()}")
        return observed

    async def order(self, scenario: str, url: str | list[str], token: str, **more: Any) -> asyncio.subprocess.Process:
        """Begin a scenario, and do not wait for what comes of it."""
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps({"scenario": scenario, "url": url, "token": token, **more}).encode() + b"\n")
        await process.stdin.drain()
        return process

    async def kill(self) -> str:
        """End the program and what it started, without a chance to say good-bye; what it had said that nobody read."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said, _ = await process.communicate()
        return f"{said.decode(errors='replace')}\n{self._output()}".strip()

    async def _start(self) -> asyncio.subprocess.Process:
        command = await asyncio.to_thread(self._row.command)
        with self._log.open("wb") as log:
            return await asyncio.create_subprocess_exec(
                *command,
                cwd=self._scratch,
                env=self._environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                limit=_MAX_LINE,
            )

    def _environment(self) -> dict[str, str]:
        """Ours, but for proxies, which loopback needs none of, and for our modules. Another home, and the modules that
        drivers share."""
        strange = ("pythonpath", "http_proxy", "https_proxy", "all_proxy")
        inherited = {name: value for name, value in os.environ.items() if name.lower() not in strange}
        own = {"HOME": str(self._scratch), "MCP_CATALOG_PATH": str(self._scratch / "catalog.json")}
        return inherited | own | {"PYTHONPATH": str(DRIVERS)}

    def _output(self) -> str:
        return self._log.read_text(errors="replace")[-_SHOWN_OUTPUT:] if self._log.exists() else ""
