"""What a scrape of ``/metrics`` costs, in this process: 12 services of which 200 tools each were called."""

from __future__ import annotations

import asyncio
import gc
import time
from functools import cache
from typing import Final, NamedTuple

from gateway.process.serving import _GC_THRESHOLDS
from gateway.telemetry import logs
from gateway.telemetry.cells import CELLS, KNOWN, MOST_TOOLS, name_tools
from gateway.telemetry.metrics import render, snapshot
from gateway.telemetry.record import Record, end

_SERVICES: Final = 12
_REPEATS: Final = 5
_MB: Final = 1e6


class Scraped(NamedTuple):
    """Megabytes of the text, milliseconds of the processor, and the longest time in milliseconds for which the event
    loop was held."""

    size: float
    cpu: float
    held: float


def megabytes() -> list[float]:
    return [one.size for one in _scrapes()]


def milliseconds() -> list[float]:
    return [one.cpu for one in _scrapes()]


def milliseconds_held() -> list[float]:
    return [one.held for one in _scrapes()]


@cache
def _scrapes() -> list[Scraped]:
    """Of some scrapes after a first one."""
    services = [f"service{number}" for number in range(_SERVICES)]
    before, thresholds, level = dict(CELLS), gc.get_threshold(), logs.threshold
    logs.set_level("error")
    _call_all(services)
    gc.collect()  # as a gateway does once it is started
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        return asyncio.run(_scrape(services))[1:]
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        logs.threshold = level
        CELLS.clear()
        KNOWN.clear()
        CELLS.update(before)


def _call_all(services: list[str]) -> None:
    """End the records of a good and a failed call of each tool."""
    for service in services:
        tools = [f"{service}.tool_number_{number}" for number in range(MOST_TOOLS)]
        name_tools(service, tools)
        for tool in tools:
            for outcome in ("", "backend_timeout"):
                record = Record("bench", "POST", "/mcp", service, "modern", "tools/call", tool)
                if outcome:
                    record.note_outcome(outcome)
                record.surface, record.revision, record.ran = "mcp", "2026-07-28", True
                record.started = time.perf_counter()
                end(record)


async def _scrape(services: list[str]) -> list[Scraped]:
    found = []
    for _ in range(_REPEATS + 1):
        began, held = time.process_time(), 0.0
        before = time.perf_counter()
        task = asyncio.create_task(render(snapshot(), services, ""))
        while not task.done():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            held, before = max(held, now - before - 0.001), now
        text, _ = task.result()
        found.append(Scraped(len(text) / _MB, (time.process_time() - began) * 1000, held * 1000))
    return found
