"""``jsonrpc-mcp-gateway`` as a process of its own, as a person starts it.

ran = await run("check", *settings(service.url))
async with serving(service.url) as (program, gateway):
    await gateway.call("rest", "add", {"a": 2, "b": 3})
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import aiohttp

from tests.front import Front, ground
from tests.starts import Forked, started
from tests.waiting import PATIENCE


def settings(url: str, *more: str) -> list[str]:
    """The options for a gateway before ``url`` on free ports, open to all unless ``more`` say who may call."""
    return [option for knob in ground(url, *more) for option in ("--set", knob)]


@dataclass(frozen=True)
class Ran:
    """What a program came to."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


TRACEBACK: Final = "Traceback (most recent call last)"


def refuse_traceback(text: str) -> None:
    """Raise AssertionError where a program has printed a traceback. It quotes lines of the program, which may have the
    very words that a test looks for."""
    assert TRACEBACK not in text, text


async def run(*arguments: str, fails_inside: bool = False, **environ: str) -> Ran:
    """Run to the end; ``environ`` is added to the environment. Standard error has a traceback only where a program
    ``fails_inside``."""
    process = await started(*arguments, environ=environ)
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        raise
    assert process.returncode is not None
    ran = Ran(process.returncode, out.decode(), err.decode())
    if not fails_inside:
        refuse_traceback(ran.err)
    return ran


class Program:
    """A program that runs until it is told to stop. ``lines`` are what it has said, on both streams. ``module`` is what
    ``python`` runs, in ``folder`` or here; ``environ`` is added to the environment. It says a traceback only where it
    ``fails_inside``."""

    def __init__(
        self,
        *arguments: str,
        module: str = "gateway",
        environ: Mapping[str, str] = MappingProxyType({}),
        python: str = sys.executable,
        folder: Path | None = None,
        fails_inside: bool = False,
    ) -> None:
        self.fails_inside = fails_inside
        self.lines: list[str] = []
        self._module = module
        self._environ = environ
        self._python, self._folder = python, folder
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | Forked | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._closed_streams = 0
        self._news = asyncio.Condition()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    async def said(self, text: str) -> str:
        """The first line with ``text`` in it, awaited."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: text in self.output or self._closed_streams == len(self._readers))
        assert text in self.output, f"ended without saying {text!r}:\n{self.output}"
        return next(line for line in self.lines if text in line)

    async def logged(self, event: str, number: int = 1) -> dict[str, Any]:
        """The first log entry with this event, awaited, or the one of this number."""
        text = f'"event":"{event}"'
        await self.said(text)
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: sum(text in line for line in self.lines) >= number)
        entry: dict[str, Any] = json.loads([line for line in self.lines if text in line][number - 1])
        return entry

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> int:
        """The exit code, awaited."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE):
            code = await self._process.wait()
            await asyncio.gather(*self._readers)
        return code

    def peak_memory(self) -> int:
        """The most bytes of memory that the process has ever held."""
        return self._status("VmHWM:")

    def memory(self) -> int:
        """The bytes of memory that the process holds now."""
        return self._status("VmRSS:")

    def _status(self, field: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))

    async def __aenter__(self) -> Self:
        self._process = await started(
            *self._arguments, module=self._module, environ=self._environ, python=self._python, folder=self._folder
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(stream)) for stream in (self._process.stdout, self._process.stderr)
        ]
        return self

    async def __aexit__(self, failure: type[BaseException] | None, *_: object) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()
        if failure is None and not self.fails_inside:
            refuse_traceback(self.output)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            async with self._news:
                self.lines.append(line.decode().rstrip("\n"))
                self._news.notify_all()
        async with self._news:
            self._closed_streams += 1
            self._news.notify_all()


@asynccontextmanager
async def serving(
    url: str, *more: str, environ: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[tuple[Program, Front]]:
    """``serve`` before ``url``, once it has listed; ``environ`` is added to the environment."""
    async with Program("serve", *settings(url, *more), environ=environ) as program, aiohttp.ClientSession() as session:
        await program.logged("listing refreshed")
        yield program, Front((await program.logged("gateway started"))["port"], session)
