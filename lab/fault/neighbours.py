"""What calls of neighbours wait for, in processor time of the gateway: that of a noisy machine's clock says nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import ClientSession

from lab.bench.machine import processor_ns
from lab.fault.table import Figure
from tests.fault.load import Callers, Sample, Samples

MOST_WAIT: Final = 50.0
"""Milliseconds of the gateway's processor time that a neighbour's call may wait for."""
_PAUSE: Final = 0.02
_PROBE_EVERY: Final = 0.25
_MOST_PROBE: Final = 0.5


def processor_ms(pid: int) -> float:
    """The processor time that all threads of a process have had, in milliseconds, those that ended too."""
    return processor_ns(pid) / 1e6


@dataclass
class Seen:
    """The calls of neighbours: their outcomes, and the longest wait of each kind."""

    samples: list[Sample] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)

    def figures(self, most: float = MOST_WAIT) -> tuple[Figure, ...]:
        """The share of right calls, the longest wait for one, and for a probe."""
        return (
            Figure("neighbours' calls that are right, of all", -Samples(self.samples).held, -1.0),
            Figure("longest wait of one, gateway's processor time", max(self.waited), most, " ms"),
            Figure("longest wait for /livez", max(self.probes), _MOST_PROBE, " s"),
        )


@asynccontextmanager
async def beside(callers: Callers, pid: int, admin_port: int) -> AsyncIterator[Seen]:
    """Call for neighbours, one call after the other, and probe, while the block runs."""
    seen = Seen()

    async def call_on() -> None:
        while True:
            for client in callers.clients:
                before = processor_ms(pid)
                seen.samples.append(await callers.call(client, "rest"))
                seen.waited.append(processor_ms(pid) - before)
                await asyncio.sleep(_PAUSE)

    async def probe_on() -> None:
        async with ClientSession() as session:
            while True:
                began = time.monotonic()
                async with session.get(f"http://127.0.0.1:{admin_port}/livez") as answer:
                    await answer.read()
                seen.probes.append(time.monotonic() - began)
                await asyncio.sleep(_PROBE_EVERY)

    tasks = [asyncio.create_task(call_on()), asyncio.create_task(probe_on())]
    try:
        yield seen
        await asyncio.sleep(_PAUSE)
    finally:
        for task in tasks:
            task.cancel()
        for done in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(done, Exception):
                raise done
