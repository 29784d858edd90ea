"""A flood of bad tokens, some hundreds a second, and how much longer honest callers wait beside it.

The gateway is a program of its own; the attacker shares the core of the load.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from tests.authorization.floods import KINDS, Kind, flood
from tests.authorization.rows import ARGUMENTS
from tests.authorization.stand import RESOURCE, Bearer
from tests.authorization.test_canaries import watched

_CALLS: Final = 300
_TOKENS: Final = 1000
_ROUNDS: Final = 3


def slowdowns() -> list[float]:
    """How many times as long honest callers wait (99th percentile): the best of three rounds for each kind, since what
    the machine does besides only ever adds."""
    return [asyncio.run(_slowdown(kind)) for kind in KINDS]


async def _slowdown(kind: Kind) -> float:
    knobs = (f"backend.credentials.backend_audience={RESOURCE}", "backend.listing.identity=shared")
    async with watched(*knobs, "telemetry.log.level=info") as it:
        issuer = it.stand.issuer
        honest = it.stand.client(issuer.sign(sub="honest"))
        await _patience(honest)
        ratios = []
        for _ in range(_ROUNDS):
            quiet = await _patience(honest)
            stop = asyncio.Event()
            attack = asyncio.create_task(flood(it, kind(issuer, _TOKENS), stop))
            ratios.append(await _patience(honest) / quiet)
            stop.set()
            await attack
        return min(ratios)


async def _patience(honest: Bearer) -> float:
    """Seconds that 99 of 100 calls take at most."""
    waits = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        answer = await honest.call("jsonrpc", "add", ARGUMENTS)
        waits.append(time.perf_counter() - started)
        if answer.status != 200:
            raise ValueError(f"an honest call was answered with {answer.status}")
    return sorted(waits)[int(_CALLS * 0.99)]
