"""Many command lines in one process, which forks for each: only the first pays for the imports.

told = await run_all({"no URL": Command(("check",))})
"""

from __future__ import annotations

import asyncio
import atexit
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from tests.mistakes.mistake import Mistake, Told
from tests.troubleshooting.places import Places
from tests.waiting import PATIENCE

_FORK: Final = multiprocessing.get_context("fork")
_AT_ONCE: Final = 6


@dataclass(frozen=True)
class Command:
    """Hold one command line. ``typed`` is its standard input. A command that goes on is ended once it has printed
    ``until``; its exit code is None then. It runs in ``folder``, and ``environ`` is added to the environment."""

    arguments: tuple[str, ...]
    typed: str = ""
    until: str = ""
    folder: str = ""
    environ: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Hold one mistake, and what makes its command line among the places."""

    mistake: Mistake
    command: Callable[[Places], Command]


async def run_all(commands: Mapping[str, Command]) -> dict[str, Told]:
    """Run the commands, some at once, and return what each came to: all that it printed, on both streams."""
    orders = {name: asdict(command) for name, command in commands.items()}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.mistakes.commands"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")},
    )
    try:
        out, _ = await process.communicate(json.dumps(orders).encode())
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    return {name: Told(code, text) for name, (code, text) in json.loads(out).items()}


async def run_rows(rows: tuple[Row, ...], places: Places) -> dict[str, Told]:
    """Run the command lines of a table."""
    return await run_all({row.mistake.name: row.command(places) for row in rows})


class _Run:
    """One command, in a process of its own."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = Command(**order)
        self._printed = tempfile.NamedTemporaryFile()  # noqa: SIM115, closed with the process
        self._end = time.monotonic() + PATIENCE
        self._process: BaseProcess = _FORK.Process(target=_become, args=(self._order, self._printed.fileno()))
        self._process.start()

    @property
    def text(self) -> str:
        return Path(self._printed.name).read_text(encoding="utf-8", errors="replace")

    def result(self) -> tuple[int | None, str]:
        """Wait for the end, or for what it goes on after."""
        while self._process.exitcode is None:
            said = self._order.until and self._order.until in self.text
            if said or time.monotonic() > self._end:
                self._process.kill()
                self._process.join()
                return None, self.text if said else f"{self.text}\nThis took more than {PATIENCE:.0f} s."
            self._process.join(0.02)
        return self._process.exitcode, self.text


def _become(command: Command, printed: int) -> None:
    with tempfile.TemporaryFile() as typed:
        typed.write(command.typed.encode())
        typed.seek(0)
        os.dup2(typed.fileno(), 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ.update(command.environ)
    if command.folder:
        os.chdir(command.folder)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, until the end
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    from gateway.cli import COMMAND, main

    # The end of a fork leaves out what the end of a program does: the last log lines are written there.
    atexit._clear()
    try:
        main(list(command.arguments), prog_name=COMMAND)
    finally:
        atexit._run_exitfuncs()


def _run_orders() -> None:
    # Before the forks, which share them.
    import gateway.cli.checking
    import gateway.cli.commands
    import gateway.service.service  # noqa: F401

    orders = list(json.load(sys.stdin).items())
    results: dict[str, tuple[int | None, str]] = {}
    for start in range(0, len(orders), _AT_ONCE):
        running = [(name, _Run(order)) for name, order in orders[start : start + _AT_ONCE]]
        results |= {name: run.result() for name, run in running}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    _run_orders()
