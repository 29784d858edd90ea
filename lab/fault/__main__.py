"""What callers see while something fails: ``python -m lab.fault [WORDS]``, the rows with these words in their names
alone.

A row is a function that returns a :class:`lab.fault.table.Line`: add it to the ``ROWS`` of its file, and a new file's
to those here. Tests that take over 10 s are in files called ``long_*.py`` anywhere below ``tests`` and ``lab``; each
file is a row, too. So is each file that goes through more cases with CASES=all (``tests/extent.py``), and what runs on
both HTTP servers, with all its rows on aiohttp's. Exit code: 0 where all targets are met, 1 where one is missed or a
row failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Final

from gateway.telemetry import logs
from lab.fault import (
    admin_port,
    ahead,
    audits,
    caches,
    changed_backend,
    connections,
    crowds,
    greedy,
    guarded,
    handshakes,
    hoarders,
    large_bodies,
    network,
    newcomers,
    replicas,
    restarts,
    revoked,
    sharing,
    slow_clients,
    sockets,
    sums,
    traced_stops,
    workers,
)
from lab.fault.table import Figure, Line, Row, table

_ROOT: Final = Path(__file__).parents[2]
_MORE_CASES: Final = "from tests.extent import"
_BOTH_SERVERS: Final = ("tests/protocol", "tests/authorization")
_FILES: Final = (
    network, crowds, greedy, guarded, slow_clients, handshakes, ahead, audits, connections, hoarders,
    large_bodies, caches, replicas, restarts, revoked, sharing, sockets, sums, traced_stops, workers, admin_port,
    newcomers, changed_backend,
)  # fmt: skip
ROWS: Final[dict[str, Row]] = {name: row for file in _FILES for name, row in file.ROWS.items()}


async def tests_of(*chosen: str) -> Line:
    """Run tests with all their cases. They take longer than ``make test`` has for them."""
    command = (sys.executable, "-m", "pytest", "--timeout=300", *chosen)
    environ = {**os.environ, "CASES": "all"}
    process = await asyncio.create_subprocess_exec(*command, cwd=_ROOT, env=environ, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    said = () if process.returncode == 0 else tuple(output.decode(errors="replace").splitlines()[-40:])
    return Line(figures=(Figure("exit code of pytest", process.returncode or 0, 0),), notes=said)


def all_rows() -> dict[str, Row]:
    files = {name: partial(tests_of, name) for name in [*_files("long_*.py"), *_files("test_*.py", _MORE_CASES)]}
    return {**ROWS, **files, "all rows on aiohttp's server": partial(tests_of, *_BOTH_SERVERS, "-k", "aiohttp")}


def _files(pattern: str, text: str = "") -> list[str]:
    """Return the files of tests with this name and this text."""
    found = (path for folder in ("tests", "lab") for path in sorted((_ROOT / folder).rglob(pattern)))
    ours = [path for path in found if not {".venv", "node_modules"} & {*path.parts}]
    return [str(path.relative_to(_ROOT)) for path in ours if text in path.read_text(encoding="utf-8")]


async def measured(name: str, row: Row) -> Line:
    """A row that fails is a line that misses."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    try:
        return await row()
    except Exception:
        return Line(
            figures=(Figure("failures of the row itself", 1, 0),), notes=tuple(traceback.format_exc().splitlines())
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.fault")
    parser.add_argument("words", nargs="*", help="run the rows alone whose names have these words, one after the other")
    wanted = " ".join(parser.parse_args(arguments).words).lower()
    logs.configure("error")  # of gateways within this process
    begun = time.monotonic()
    lines = {name: asyncio.run(measured(name, row)) for name, row in all_rows().items() if wanted in name.lower()}
    print(table(lines))
    missed = [name for name, line in lines.items() if line.missed]
    print(f"\n{len(lines)} rows in {time.monotonic() - begun:.0f} s, {len(missed)} missed")
    return 1 if missed or not lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
