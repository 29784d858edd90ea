"""Many command lines, some at once, and what each came to.

told = await run_all({"no URL": Command(("check",))})
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.mistakes.mistake import Told
from tests.program import refuse_traceback
from tests.starts import started
from tests.waiting import PATIENCE

_AT_ONCE: Final = 6
_CHUNK: Final = 65536


@dataclass(frozen=True)
class Command:
    """Hold one command line. ``typed`` is its standard input. A command that goes on is ended once it has printed
    ``until``; its exit code is None then. It runs in ``folder``, and ``environ`` is added to the environment."""

    arguments: tuple[str, ...]
    typed: str = ""
    until: str = ""
    folder: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)


async def run_all(commands: Mapping[str, Command]) -> dict[str, Told]:
    """Run the commands, some at once, and return what each came to: all that it printed, on both streams."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def run(command: Command) -> Told:
        async with places:
            return await _told(command)

    return dict(zip(commands, await asyncio.gather(*map(run, commands.values())), strict=True))


async def _told(command: Command) -> Told:
    process = await started(
        *command.arguments,
        environ=command.environ,
        folder=Path(command.folder) if command.folder else None,
        given=asyncio.subprocess.PIPE,
        errors=asyncio.subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(command.typed.encode())
    process.stdin.close()
    printed, goes_on = b"", False
    try:
        async with asyncio.timeout(PATIENCE):
            while not goes_on and (data := await process.stdout.read(_CHUNK)):
                printed += data
                goes_on = bool(command.until) and command.until.encode() in printed
            code = None if goes_on else await process.wait()
    except TimeoutError:
        code, printed = None, printed + f"\nThis took more than {PATIENCE:.0f} s.".encode()
    if process.returncode is None:
        process.kill()
        await process.wait()
    text = printed.decode(errors="replace")
    refuse_traceback(text)
    return Told(code, text)
