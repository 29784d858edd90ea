"""A row of ``make fault``: gateways with traces end in time, while nobody takes their spans."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Mapping
from typing import Final

from lab.fault.table import Figure, Line, Row
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.otlp import Collector
from tests.program import serving, settings, started
from tests.protocol.talk import modern_request
from tests.services.process import free_port
from tests.waiting import until

_SHUTDOWN: Final = 1.0
_KNOBS: Final = ("telemetry.traces=on", f"server.shutdown_timeout={_SHUTDOWN:g}s")
_ADD: Final = {"a": 2, "b": 3}


async def _stop(backend: ScriptedBackend, environ: Mapping[str, str], *, busy: bool) -> float:
    """Return the seconds from SIGTERM to the end."""
    async with serving(backend.url, *_KNOBS, environ=environ) as (program, gateway):
        await gateway.call("rest", "add", _ADD)
        if busy:
            backend.on("echo", Hang("head"))
            call = asyncio.create_task(gateway.call("rest", "echo", {"value": 1}))
            await until(lambda: backend.calls("echo"))
        began = time.monotonic()
        program.signal(signal.SIGTERM)
        await program.ended()
        took = time.monotonic() - began
        if busy:
            await asyncio.gather(call, return_exceptions=True)
        return took


async def _end_of_input(backend: ScriptedBackend, environ: Mapping[str, str]) -> float:
    """Return the seconds from the end of the input of ``stdio`` to that of the process."""
    pipe = asyncio.subprocess.PIPE
    process = await started("stdio", *settings(backend.url, _KNOBS[0]), environ=environ, given=pipe, output=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(modern_request("tools/call", {"name": "add", "arguments": _ADD})).encode() + b"\n")
    await process.stdout.readline()
    began = time.monotonic()
    process.stdin.close()
    await process.wait()
    return time.monotonic() - began


async def nobody_takes_spans() -> Line:
    async with ScriptedBackend() as backend, Collector() as collector:
        collector.open.clear()
        hangs = {**collector.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
        away = {**hangs, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
        figures = []
        for what, environ in (("hangs", hangs), ("is away", away)):
            for busy in (False, True):
                took = await _stop(backend, environ, busy=busy)
                whose = "with a call" if busy else "idle"
                figures.append(Figure(f"{what}, {whose}: SIGTERM until the end", took, _SHUTDOWN + 1, " s"))
            took = await _end_of_input(backend, environ)
            figures.append(Figure(f"{what}, stdio: end of input until the end", took, 2, " s"))
    return Line(figures=tuple(figures))


ROWS: Final[dict[str, Row]] = {"gateways with traces are stopped, and nobody takes their spans": nobody_takes_spans}
