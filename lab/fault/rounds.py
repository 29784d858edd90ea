"""How a row of ``make fault`` is measured: quiet, trouble and its end, round after round."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypedDict

from lab.fault.stage import DEADLINE
from lab.fault.table import RECOVERY, Line
from tests.fault.ledger import Ledger
from tests.fault.load import Callers, Sample, Samples

ROUNDS: Final = 3
QUIET: Final = 1.2
FAULTY: Final = 2.2
"""Seconds of each round without and with the trouble."""
SLACK: Final = 1.0
"""Seconds that an answer may come after its deadline, on a busy machine."""
SHOWN: Final = 3
Trouble: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class Certain(TypedDict):
    """How many calls came to what must never happen."""

    wrong: int
    twice: int
    lost: int


@dataclass
class _Seen:
    healthy: list[Sample] = field(default_factory=list)
    troubled: list[Sample] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)


async def measured(ledger: Ledger, trouble: Trouble, healthy: Callers, troubled: Callers | None) -> Line:
    """Measure a row. All callers call all the time; the recovery is that of the troubled ones, counted from the end of
    the trouble. Of the rounds' ratios the middle one counts, since a machine that stands still for a moment spoils one;
    of the recoveries the slowest."""
    await asyncio.gather(*(callers.calls(QUIET) for callers in (healthy, troubled) if callers))  # warms up
    seen = _Seen()
    for _ in range(ROUNDS):
        await _round(seen, trouble, healthy, troubled)
    late = [one for one in (*seen.healthy, *seen.troubled) if one.waited > DEADLINE + SLACK]
    beside = Samples(seen.healthy)
    return Line(
        held=beside.held,
        worst=beside.worst,
        slowdown=statistics.median(seen.ratios),
        **certain(ledger),
        late=len(late),
        recovery=max(seen.recoveries, default=None),
        notes=tuple(ledger.complaints[:SHOWN]),
    )


def certain(ledger: Ledger) -> Certain:
    """What the ledger knows for certain."""
    return {"wrong": len(ledger.wrong), "twice": len(ledger.twice), "lost": len(ledger.lost)}


async def _round(seen: _Seen, trouble: Trouble, healthy: Callers, troubled: Callers | None) -> None:
    before = asyncio.create_task(troubled.calls(QUIET)) if troubled else None
    quiet = await healthy.calls(QUIET)
    if before:
        await before
    async with trouble():
        meanwhile = asyncio.create_task(troubled.calls(FAULTY)) if troubled else None
        beside = await healthy.calls(FAULTY)
    if troubled and meanwhile:
        seen.recoveries.append(await troubled.first_right(2 * RECOVERY))
        seen.troubled += (await meanwhile).of
    seen.healthy += beside.of
    seen.ratios.append(beside.p99 / quiet.p99)
