"""How fast the gateway is, beside everybody who does the same work or less: ``python -m lab.bench [--quick]``.

Rounds are interleaved: every lane runs once per round, so that whatever else the machine does hits all of them, and
ratios are taken within a round. The load and the service have one core, the system under test has the other to itself.
Trust CPU per request first, ratios second and requests per second last. Without ``--quick`` it writes
docs/performance.md, its plots, and the ratio that ``--quick`` is held to.

Exit code: 0 where all that must hold does, 1 where something is missed or was not measured, 2 where the benchmark could
not run or could not be believed. With ``--quick`` the guard alone decides between 0 and 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from lab.bench import lanes, work
from lab.bench.field import Field, Stretch
from lab.bench.gateways import Plan as GatewayPlan
from lab.bench.growth import Point, beside_streams
from lab.bench.load import Figures, until_first
from lab.bench.machine import Unusable, program, two_cores
from lab.bench.page import PAGE, RESULTS, ROOT, write
from lab.bench.profile import shares
from lab.bench.report import Line, Rounds, lanes_table, lines_table
from lab.bench.rows import (
    BOUNDS,
    COLD_TOOLS,
    FRAMES,
    GROUPS,
    PAGES,
    SCRAPES,
    STARTS,
    TARGETS,
    Row,
    Run,
    guard,
    recorded_ratio,
)
from lab.bench.versions import machine

_PROFILED: Final = 4
_KNOWN_PER_SECOND: Final = 2500
_DECIDING: Final = frozenset(lane for row in TARGETS for lane in row.lanes)
"""Lanes of a target run twice as long, and in more rounds."""
_FIRST_SECOND: Final = (lanes.BURST, lanes.BURST_DIRECT)
_STEADY: Final = 10
"""Seconds of :data:`lab.bench.lanes.STEADY`."""
_WARM_UPS: Final = 15
_COMPILING: Final = 0.93
"""CPU of a request beside the least so far, below which a program is still compiling."""
_SETTLED: Final = 30.0
"""Seconds at most until the programs that were started keep still."""


@dataclass(frozen=True)
class Plan:
    """How much to measure. Lanes that decide run in ``deciding`` rounds, which are at least as many as ``rounds``."""

    quick: bool
    rounds: int
    deciding: int
    starts: int
    wanted: frozenset[str]
    rows: tuple[Row, ...]

    def seconds(self, lane: str) -> int:
        if self.quick:
            return 1
        if lane in lanes.STEADY:
            return _STEADY
        return 2 if lane in _DECIDING and lane not in _FIRST_SECOND else 1


def plan(arguments: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m lab.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two minutes, a few lanes, and the guard; writes nothing")
    parser.add_argument("--rounds", type=int, help="of the race (default 3, and 5 of the lanes that decide)")
    given = parser.parse_args(arguments)
    everything = frozenset(lane for table in lanes.TABLES.values() for lane in table)
    if given.quick:
        quick = tuple(row for row in (*TARGETS, *BOUNDS) if row.quick)
        rows = (guard(recorded_ratio()), *quick, *SCRAPES, *GROUPS, *FRAMES, *STARTS)
        return Plan(True, given.rounds or 5, given.rounds or 5, 3, frozenset(lanes.QUICK), rows)
    rows = (*TARGETS, *BOUNDS, *SCRAPES, *GROUPS, *PAGES)
    return Plan(False, given.rounds or 3, given.rounds or 5, 3, everything, rows)


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what} ...", file=sys.stderr, flush=True)


def race(field: Field, plan: Plan, core: int, folder: Path) -> Rounds:
    """All lanes in turn, round after round; each round begins with another lane. A lane that cannot be believed is left
    out from then on, and the field says why."""
    rounds: Rounds = {name: [] for name in field.stretches}

    def run(name: str, seconds: int) -> Figures | None:
        try:
            stretch = field.stretches[name]
            return stretch.lane.run(max(seconds, stretch.least), stretch.connections, core, folder)
        except Unusable as reason:
            say(f"without {name}: {reason}")
            field.missing[name] = str(reason)
            del rounds[name]
            return None

    say(f"warming up for {len(rounds)} lanes")
    for name, seconds in _warm_ups(field.stretches).items():
        _warm_up(partial(run, name, seconds))
    for number in range(plan.deciding):
        say(f"round {number + 1} of {plan.deciding}")
        names = [name for name in rounds if number < plan.rounds or name in _DECIDING]
        first = number * len(names) // plan.deciding
        for name in names[first:] + names[:first]:
            if figures := run(name, plan.seconds(name)):
                rounds[name].append(figures)
    return rounds


def _warm_up(run: Callable[[], Figures | None]) -> None:
    """Ask a program until it has compiled what it compiles: a stretch no longer takes less CPU for a request. V8 needs
    some ten thousand requests for the TypeScript SDK, and takes three times as long for each until then."""
    least, stretches_since = math.inf, 0
    for _ in range(_WARM_UPS):
        if (figures := run()) is None:
            return
        stretches_since = 0 if figures.cpu < least * _COMPILING else stretches_since + 1
        least = min(least, figures.cpu)
        if stretches_since == 2:
            return


def _warm_ups(stretches: dict[str, Stretch]) -> dict[str, int]:
    """Seconds of a stretch in which every program knows every caller: one lane of each program, and each crowd of
    callers."""
    seconds: dict[str, int] = {}
    warm: set[int] = set()
    for name, stretch in stretches.items():
        callers = len(stretch.lane.workload.variants)
        if id(stretch.lane.process) not in warm or callers:
            warm.add(id(stretch.lane.process))
            seconds[name] = 1 + callers // _KNOWN_PER_SECOND
    return seconds


def _settle(field: Field) -> None:
    """Wait until the programs have done what they do after their start: the CPU they use in a tenth of a second."""
    processes = {id(one.lane.process): one.lane.process for one in field.stretches.values()}.values()
    until = time.monotonic() + _SETTLED
    while time.monotonic() < until:
        before = sum(process.scheduled().ran for process in processes)
        time.sleep(0.5)
        if sum(process.scheduled().ran for process in processes) - before < 0.1e9:
            return


def measure(plan: Plan, folder: Path, cores: tuple[int, int]) -> tuple[Run, list[Line], dict[str, Any]]:
    """The rounds, the rows, and what only the page shows."""
    load_core, core = cores
    # this process must not disturb the core of the system under test
    os.sched_setaffinity(0, {load_core})
    program("wrk")
    say("starting everybody")
    with Field(folder, load_core, core, plan.wanted) as field:
        _settle(field)
        run = Run(race(field, plan, load_core, folder), core, folder, field.missing, field.idle)
        more = {} if plan.quick else _more(field, load_core, folder)
        say("starting gateways")
        run.starts = [_start(field) for _ in range(plan.starts)]
    lines = []
    for row in plan.rows:
        if not row.lanes:
            say(row.what)
        lines.append(row.line(run))
    return run, lines, more


def _start(field: Field) -> float:
    gateway = field.gateways.make(GatewayPlan(tools=COLD_TOOLS))
    return until_first(gateway.lane("start", work.listing(COLD_TOOLS)))


def _more(field: Field, load_core: int, folder: Path) -> dict[str, Any]:
    """Where the time of a call goes, and what idle streams cost."""
    say("a profile")
    more: dict[str, Any] = {"profile": {}, "unprofiled": "", "streams": []}
    try:
        more["profile"] = shares(field.stretches[lanes.GATEWAY].lane, _PROFILED, load_core, folder)
    except (Unusable, OSError, KeyError) as reason:
        more["unprofiled"] = " ".join(str(reason).split())
    say("idle streams")
    points: list[Point] = []
    try:
        points = beside_streams(field.gateways, load_core, folder)
    except (Unusable, OSError) as reason:
        field.missing["idle streams"] = str(reason)
    return more | {"streams": [asdict(point) for point in points]}


def results(run: Run, lines: Iterable[Line], more: dict[str, Any]) -> dict[str, Any]:
    """All that the page is made of, as JSON: figures as in :class:`lab.bench.load.Figures`, memory in MiB."""
    told = {line.what: _told(line) for line in lines}
    return {
        "lanes": {name: [asdict(one) for one in figures] for name, figures in run.rounds.items()},
        "missing": run.missing,
        "idle": {name: held / 1024**2 for name, held in run.idle.items()},
        "targets": [told[row.what] for row in TARGETS],
        "bounds": [told[row.what] for row in BOUNDS],
        "machine": machine(),
        **more,
    }


def _told(line: Line) -> dict[str, str]:
    return {
        "what": line.what,
        "measured": line.measured,
        "must": str(line.target),
        "verdict": line.verdict,
        "stretch": line.target.stretch_text,
        "stretched": line.stretched,
        "why": line.why,
    }


def main(arguments: Sequence[str]) -> int:
    chosen = plan(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
            run, lines, more = measure(chosen, Path(folder), two_cores())
    except Unusable as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 2
    print(lanes_table(run.rounds, run.missing), end="\n\n")
    print(lines_table(lines))
    if not chosen.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results(run, lines, more), indent=1))
        write(json.loads(RESULTS.read_text()))
        print(f"\nwritten: {PAGE.relative_to(ROOT)}, its plots, the ratio for make bench-quick")
    decide = lines[:1] if chosen.quick else lines  # the guard is the first
    return 0 if all(line.met for line in decide) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
