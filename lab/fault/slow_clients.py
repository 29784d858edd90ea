"""Rows of ``make fault``: Debian's slowhttptest, and thousands of clients that come at once."""

from __future__ import annotations

import asyncio
import socket
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from lab.bench.crowds import last_beside_median
from lab.fault.rounds import FAULTY, QUIET, ROUNDS, certain
from lab.fault.stage import stage
from lab.fault.table import Figure, Line, Row
from tests.fault.load import Samples
from tests.slowhttptest import KINDS, Attack, attack

_SECONDS: Final = 40
"""Longer than the time that any of them is given: 10 s for a head, 25 s for a body, 30 s for taking an answer."""
_CONNECTIONS: Final = 200
_ROUNDS: Final = 5
_AT_ONCE: Final = 3.0


async def slow_clients() -> Line:
    """Slow heads, bodies and readers side by side. Each is cut in its time, and others are answered meanwhile.

    Each quiet time is as long as the troubled one, right before it, and of the rounds' ratios the middle one counts:
    what else the machine does changes within the minute of a whole attack. Then, too, the clients are slow, at a port
    where the kernel alone takes what they send. So they take their part of the core that they share with the callers in
    both, and the ratio tells what they cost the gateway."""
    async with stage() as it:
        healthy = await it.healthy()
        ratios, beside = [], []
        for _ in range(_ROUNDS):
            with socket.create_server(("127.0.0.1", 0), backlog=4 * _CONNECTIONS) as nobody:
                async with _attacked(nobody.getsockname()[1]):
                    await healthy.calls(QUIET)  # until the connections are there, and those of the last round are not
                    quiet = await healthy.calls(FAULTY)
            async with _attacked(it.port):
                beside += [await healthy.calls(QUIET), await healthy.calls(FAULTY)]
            ratios.append(beside[-1].p99 / quiet.p99)
        attacks = _attacks(it.port)
        beside += [await healthy.calls(FAULTY) for _ in range(3 * ROUNDS)]
        reports = dict(zip(KINDS, await attacks, strict=True))
    cut = {kind: reports[kind].ended == "No open connections left" for kind in ("heads", "bodies")}
    figures = [Figure(f"slow {kind} that are not cut", not all_cut, 0) for kind, all_cut in cut.items()]
    figures += [Figure(f"unavailable to {kind}", not report.was_available, 0) for kind, report in reports.items()]
    together = Samples([sample for samples in beside for sample in samples.of])
    return Line(
        held=together.held,
        worst=together.worst,
        slowdown=statistics.median(ratios),
        **certain(it.ledger),
        figures=tuple(figures),
        notes=tuple(it.ledger.complaints[:3]),
    )


def _attacks(port: int) -> asyncio.Future[list[Attack]]:
    """Begin one attack of each kind on a port of this machine."""
    base = f"http://127.0.0.1:{port}/near"
    return asyncio.gather(*(attack(kind, base, connections=_CONNECTIONS, seconds=_SECONDS) for kind in KINDS))


@asynccontextmanager
async def _attacked(port: int) -> AsyncIterator[None]:
    """Have a port attacked during the block."""
    attacks = _attacks(port)
    try:
        yield
    finally:
        attacks.cancel()
        with suppress(asyncio.CancelledError):
            await attacks


async def clients_at_once() -> Line:
    """The one row that is of ``make bench``, too."""
    (ratio,) = await asyncio.to_thread(last_beside_median)
    return Line(figures=(Figure("p99 of their first answers / p50", ratio, _AT_ONCE),))


ROWS: Final[dict[str, Row]] = {
    f"{_CONNECTIONS} slow heads, bodies and readers each": slow_clients,
    "2,000 connections at once": clients_at_once,
}
