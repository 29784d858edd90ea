"""A row of ``make fault``: a required audit goes to a pipe that nobody reads, while callers go on."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from lab.fault.table import Figure, Line, Row
from tests.fault.scripted import ScriptedBackend
from tests.program import serving

_CALLS: Final = 100_000
_AT_ONCE: Final = 50
_MIB: Final = 1024 * 1024
_SHUTDOWN: Final = 2.0
_LARGE: Final = 15_000
"""Characters of the first calls, which fill the buffer soon: while it has room, each call waits for 5 s."""


async def unread() -> Line:
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "audit"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDWR)
        knobs = (
            *(f"telemetry.audit.to={pipe}", "telemetry.audit.required=true", "telemetry.audit.arguments=all"),
            *("limits.invocation=1000000/second", f"server.shutdown_timeout={_SHUTDOWN:g}s"),
        )
        async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, gateway):

            async def calls(number: int, size: int) -> int:
                arguments = {"value": "y" * size}
                codes = [(await gateway.call("rest", "echo", arguments)).code for _ in range(number // _AT_ONCE)]
                return sum(code != "audit_unavailable" for code in codes)

            async def many(number: int, size: int = 600) -> int:
                return sum(await asyncio.gather(*(calls(number, size) for _ in range(_AT_ONCE))))

            filled = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.write(filled, bytes(_MIB))
            await many(_AT_ONCE)
            before = program.memory()
            others = await many(6 * _AT_ONCE, _LARGE) + await many(_CALLS)
            more = program.memory() - before
            began = time.monotonic()
            program.signal(signal.SIGTERM)
            code = await program.ended()
            took = time.monotonic() - began
            figures = (
                Figure("more memory", more / _MIB, 8, " MiB"),
                Figure("calls that were not refused", others + backend.calls("echo"), 0),
                Figure("SIGTERM until the end", took, _SHUTDOWN + 1, " s"),
                Figure("exit code", abs(code), 0),
            )
            os.close(filled)
        os.close(reader)
    return Line(figures=figures)


ROWS: Final[dict[str, Row]] = {f"{_CALLS // 1000},000 calls, and nobody reads a required audit": unread}
