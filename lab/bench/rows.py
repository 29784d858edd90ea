"""The rows with a target: what is compared, what must hold, and what it is stretched to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.bench import crowds, floods, frames, groups, lanes, memory, neighbours, scraping, starting
from lab.bench.hostile import slowest_answers
from lab.bench.load import Figures
from lab.bench.machine import Unusable
from lab.bench.normalizing import milliseconds_per_tool, seconds_for_many
from lab.bench.permits import microseconds_per_permit
from lab.bench.report import Line, Rounds, Target
from lab.bench.shared_permits import microseconds_per_shared_permit, permits_beyond_the_burst
from lab.bench.tokens import microseconds_per_warm_token
from tests.hostile_values import LIMIT, slowest_checks
from tests.page.figures import (
    MOST_KILOBYTES,
    MOST_MS,
    MOST_MS_HELD,
    first_paints,
    kilobytes_of_files,
    milliseconds_held,
)

RECORDED: Final = Path(__file__).with_name("recorded.json")
"""What the last ``make bench`` found, for the guard of ``make bench-quick``."""
COLD_TOOLS: Final = 100
_WORSE: Final = 1.15
_FAILURES: Final = (Unusable, OSError, ValueError, TimeoutError, AssertionError)
_MIB: Final = 1024 * 1024


@dataclass
class Run:
    """What was measured before the rows are: the rounds of each lane, why others have none, what each program had in
    memory before it was asked (bytes), and seconds of each start."""

    rounds: Rounds
    core: int
    folder: Path
    missing: dict[str, str] = field(default_factory=dict)
    idle: dict[str, int] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A comparison; ``lanes`` are those it needs. A quick one is also a row of ``make bench-quick``."""

    what: str
    target: Target
    measure: Callable[[Run], Sequence[float]]
    unit: str = ""
    lanes: tuple[str, ...] = ()
    quick: bool = False

    def line(self, run: Run) -> Line:
        """Measure it, or say which lane is missing."""
        for lane in self.lanes:
            if lane not in run.rounds:
                return self._without(run.missing.get(lane, f"{lane} did not run"))
        try:
            return Line(self.what, self.measure(run), self.target, self.unit)
        except _FAILURES as reason:  # one row that fails shall not lose all the others
            return self._without(f"{type(reason).__name__}: {reason}")

    def _without(self, why: str) -> Line:
        return Line(self.what, None, self.target, self.unit, " ".join(why.split())[:300])


def _pairs(of: Callable[[Figures, Figures], float], one: str, other: str) -> Callable[[Run], list[float]]:
    """Compare two lanes round by round. One may have run in more rounds, after those that both ran in."""
    return lambda run: [of(a, b) for a, b in zip(run.rounds[one], run.rounds[other], strict=False)]


def rate(what: str, one: str, other: str, target: Target, quick: bool = False) -> Row:
    """Requests per second of one lane against another's, round by round."""
    return Row(what, target, _pairs(lambda a, b: a.rate / b.rate, one, other), "", (one, other), quick)


def cpu(what: str, one: str, other: str, target: Target, quick: bool = False) -> Row:
    """CPU per request of one lane against another's, round by round."""
    return Row(what, target, _pairs(lambda a, b: a.cpu / b.cpu, one, other), "", (one, other), quick)


def _added(
    what: str, of: Callable[[Figures], int], target: Target, one: str = lanes.SLOW, other: str = lanes.SLOW_DIRECT
) -> Row:
    """Milliseconds that the gateway adds to a service of 20 ms."""
    added = _pairs(lambda a, b: (of(a) - of(b)) / 1000, one, other)
    return Row(what, target, added, " ms", (one, other), quick=one == lanes.SLOW)


CPU_TO_BARE: Final = cpu(
    "tools/call / bare proxy, CPU", lanes.GATEWAY, lanes.BARE, Target(at_most=0.9, stretch=0.65), quick=True
)
TARGETS: Final = (
    rate("tools/call / bare proxy, requests/s", lanes.GATEWAY, lanes.BARE, Target(1.1, stretch=1.5), quick=True),
    CPU_TO_BARE,
    rate("tools/call / FastMCP's best mode, requests/s", lanes.GATEWAY, lanes.FASTMCP, Target(15, stretch=18), True),
    rate("tools/call / FastMCP's newest mode, requests/s", lanes.GATEWAY, lanes.NEWEST, Target(16, stretch=21)),
    rate("tools/call / Python SDK + httpx2, requests/s", lanes.GATEWAY, lanes.SDK, Target(11, stretch=18)),
    cpu("TypeScript SDK 2's server / tools/call, CPU", lanes.TYPESCRIPT, lanes.GATEWAY, Target(1.7, stretch=2.5), True),
    rate("tools/list of 20 / static, requests/s", lanes.LISTED, lanes.STATIC, Target(0.6, stretch=0.9), True),
    _added("added to 20 ms at 50 connections, p50", lambda f: f.p50, Target(at_most=1.2, stretch=0.8)),
    _added("added to 20 ms at 50 connections, p99", lambda f: f.p99, Target(at_most=9, stretch=4)),
    _added(
        "added to 20 ms in the first second, p99",
        lambda f: f.p99,
        Target(at_most=20, stretch=9),
        lanes.BURST,
        lanes.BURST_DIRECT,
    ),
    Row(
        "shared limit's cost on a call, CPU",
        Target(at_most=20, stretch=5),
        _pairs(lambda a, b: (a.cpu / b.cpu - 1) * 100, lanes.SHARED, lanes.GATEWAY),
        " %",
        (lanes.SHARED, lanes.GATEWAY),
    ),
    rate("2 workers / 1 worker, requests/s", lanes.TWO_WORKERS, lanes.ONE_WORKER, Target(1.3, stretch=1.5)),
    Row("memory, idle", Target(at_most=85, stretch=60), lambda run: [run.idle[lanes.GATEWAY] / _MIB], " MiB"),
    Row("memory of an idle stream", Target(at_most=16_000, stretch=12_000), lambda _: memory.bytes_per_stream(), " B"),
    Row("memory of a cached token", Target(at_most=2000, stretch=1300), lambda _: memory.bytes_per_caller(), " B"),
)
"""The targets for speed and size. Decision 50 says why they are these."""


def _at_most(what: str, most: float, unit: str, measure: Callable[[Run], Sequence[float]], quick: bool = False) -> Row:
    return Row(what, Target(at_most=most), measure, unit, (), quick)


BOUNDS: Final = (
    _at_most(f"start-up of {COLD_TOOLS} tools", 2, " s", lambda run: run.starts, quick=True),
    _at_most("a known token, per call", 5, " us", lambda _: microseconds_per_warm_token(), quick=True),
    _at_most("a permit, its handle kept", 2, " us", lambda _: microseconds_per_permit()[0], quick=True),
    _at_most("a permit, its handle asked for", 8, " us", lambda _: microseconds_per_permit()[1], quick=True),
    _at_most("a permit of Redis, leased by tens, CPU", 30, " us", lambda _: microseconds_per_shared_permit()),
    _at_most("permits beyond a burst of 100, 3 replicas", 30, "", lambda _: permits_beyond_the_burst()),
    _at_most("normalizing, per tool", 1, " ms", lambda _: milliseconds_per_tool()),
    _at_most("normalizing, 5,000 methods", 5, " s", lambda _: seconds_for_many()),
    _at_most("slowest answer beside hostile requests", 100, " ms", lambda run: slowest_answers(run.core, run.folder)),
    _at_most("slowest check of a value of 1 MiB", LIMIT, " ms", lambda _: slowest_checks()),
    _at_most("p99 beside a flood of bad tokens / quiet", 2, "", lambda _: floods.slowdowns()),
    _at_most("p99 beside a service that hangs / quiet", 2, "", lambda _: neighbours.slowdowns()),
    _at_most("p99 / p50 of 2,000 connections at once", 3, "", lambda _: crowds.last_beside_median()),
    _at_most("memory while 60 clients do not read", 512, " MiB", lambda _: crowds.mebibytes_for_unread()),
    _at_most("memory while answers are refused", 40, " MiB", lambda _: memory.mebibytes_for_refused()),
    _at_most("memory of 5,000 methods", 96, " MiB", lambda _: memory.mebibytes_for_many()),
)
"""What strangers can cost, and what a call is made of."""


SCRAPES: Final = (
    _at_most("/metrics of 2,400 tools, size", 1, " MB", lambda _: scraping.megabytes(), quick=True),
    _at_most("/metrics of 2,400 tools, CPU", 100, " ms", lambda _: scraping.milliseconds(), quick=True),
    _at_most("/metrics of 2,400 tools, loop held", 10, " ms", lambda _: scraping.milliseconds_held(), quick=True),
)
"""What a scrape costs. docs/performance.md does not show these."""


PAGES: Final = (
    _at_most("a page with 5,000 tools, first paint", MOST_MS, " ms", lambda _: asyncio.run(first_paints())),
    _at_most("a page with 5,000 tools, loop held", MOST_MS_HELD, " ms", lambda _: asyncio.run(milliseconds_held())),
    _at_most("style sheet and script of the pages", MOST_KILOBYTES, " kB", lambda _: [kilobytes_of_files()]),
)
"""What the pages cost. docs/performance.md does not show these."""


GROUPS: Final = (
    _at_most("first page of a group of 2,400 tools", 10, " ms", lambda _: groups.milliseconds_of_first_page(), True),
    _at_most("memory of a group of 2,400 tools", 4000, " kB", lambda _: groups.kilobytes(), quick=True),
)
"""What one address for 12 services costs, search off: their tools are in memory once. docs/performance.md does not show
these."""


FRAMES: Final = (
    _at_most("a call over a WebSocket, its frames, CPU", 40, " us", lambda _: frames.microseconds_per_call(), True),
)
"""What reading frames ourselves costs (decision 21): a row of ``make bench-quick`` alone."""


STARTS: Final = (
    _at_most("stdio until its first answer, CPU", 0.8, " s", lambda _: starting.seconds_of_stdio(), quick=True),
    _at_most("--version, CPU", 0.15, " s", lambda _: starting.seconds_of_version(), quick=True),
    _at_most("--help, CPU", 0.15, " s", lambda _: starting.seconds_of_help(), quick=True),
)
"""What a start costs: rows of ``make bench-quick`` alone."""


def guard(recorded: float) -> Row:
    """CPU per request against the bare proxy, beside the ratio of the last ``make bench``: 15 % over it is too much."""
    ratios = CPU_TO_BARE.measure
    return Row(
        f"CPU / bare proxy, against the recorded {recorded:.3g}",
        Target(at_most=_WORSE),
        lambda run: [ratio / recorded for ratio in ratios(run)],
        lanes=CPU_TO_BARE.lanes,
    )


def recorded_ratio() -> float:
    return float(json.loads(RECORDED.read_text())["cpu_to_bare_proxy"])


def record(ratio: float) -> None:
    """Keep the ratio for the guard."""
    RECORDED.write_text(json.dumps({"cpu_to_bare_proxy": round(ratio, 3)}) + "\n")
