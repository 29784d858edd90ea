"""How fast the gateway is, against yardsticks that run beside it: ``python -m tests.bench [--quick]``.

Rounds are interleaved: every lane runs once per round, so that whatever else the machine does hits all of
them, and ratios are taken within a round. The load and the backend have one core, the system under test has
the other to itself. Trust CPU per request first, ratios second and requests per second last. Exit code: 0
where all targets are met, 1 where one is missed or was not measured, 2 where the benchmark could not run or
could not be believed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench import crowds, floods, neighbours
from tests.bench.hostile import slowest_answers
from tests.bench.load import Lane, until_first
from tests.bench.machine import Unusable, program, two_cores
from tests.bench.memory import bytes_per_caller, bytes_per_stream, mebibytes_for_many, mebibytes_for_refused
from tests.bench.normalizing import milliseconds_per_tool, seconds_for_many
from tests.bench.permits import microseconds_per_permit
from tests.bench.report import Line, Rounds, Target, cpu_ratios, lanes_table, lines_table, rate_ratios
from tests.bench.servers import Field
from tests.bench.shared_permits import microseconds_per_shared_permit, permits_beyond_the_burst
from tests.bench.tokens import microseconds_per_warm_token

COLD_TOOLS = 100
PARTS = ("gateway", "fastmcp", "bounds")


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    rounds: int
    seconds: int
    starts: int
    connections: int
    without: frozenset[str]


def plan(arguments: list[str]) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less than 2 minutes instead of less than 5")
    parser.add_argument("--connections", type=int, default=16, help="of wrk (default 16)")
    parser.add_argument("--without", action="append", default=[], choices=PARTS, help="leave a part out")
    given = parser.parse_args(arguments)
    rounds, seconds, starts = (4, 1, 3) if given.quick else (5, 4, 5)
    return Plan(rounds, seconds, starts, given.connections, frozenset(given.without))


def race(lanes: list[Lane], plan: Plan, core: int, folder: Path) -> Rounds:
    """All lanes in turn, round after round; each round begins with another lane."""
    rounds: Rounds = {lane.name: [] for lane in lanes}
    for lane in lanes:
        lane.run(1, plan.connections, core, folder)
    for number in range(plan.rounds):
        print(f"round {number + 1} of {plan.rounds} ...", file=sys.stderr, flush=True)
        first = number % len(lanes)
        for lane in lanes[first:] + lanes[:first]:
            rounds[lane.name].append(lane.run(plan.seconds, plan.connections, core, folder))
    return rounds


def measure(plan: Plan, folder: Path, cores: tuple[int, int]) -> tuple[Rounds, list[float]]:
    """The rounds, and the gateway's start-up times."""
    load_core, core = cores
    # this process must not disturb the core of the system under test
    os.sched_setaffinity(0, {load_core})
    program("wrk")
    with Field(folder, load_core, core) as field:
        starts: list[float] = []
        lanes = [field.bare_proxy()]
        if "fastmcp" not in plan.without:
            lanes.append(field.fastmcp())
        if "gateway" not in plan.without:
            starts = [until_first(field.cold_gateway(COLD_TOOLS)) for _ in range(plan.starts)]
            calls, lists = field.gateway()
            _, page, _ = lists.ask()
            lanes += [calls, lists, field.static_answer(page)]
        return race(lanes, plan, load_core, folder), starts


def bounds(plan: Plan, folder: Path, cores: tuple[int, int]) -> list[Line]:
    """What strangers can cost: time that others wait, and memory."""
    if "bounds" in plan.without:
        return []
    print("what strangers cost ...", file=sys.stderr, flush=True)
    return [
        Line("slowest answer beside hostile requests", slowest_answers(cores[1], folder), Target(below=100), " ms"),
        Line("p99 beside a flood of bad tokens / quiet", floods.slowdowns(), Target(below=2)),
        Line("p99 beside a service that hangs / quiet", neighbours.slowdowns(), Target(below=2)),
        Line("p99 / p50 of 2,000 connections at once", crowds.last_beside_median(), Target(below=3)),
        Line("memory while 60 clients do not read", crowds.mebibytes_for_unread(), Target(below=512), " MiB"),
        Line("memory of a known caller", bytes_per_caller(), Target(below=2048), " B"),
        Line("memory of an idle stream", bytes_per_stream(), Target(below=20_000), " B"),
        Line("memory while answers are refused", mebibytes_for_refused(), Target(below=40), " MiB"),
        Line("memory of 5,000 methods", mebibytes_for_many(), Target(below=96), " MiB"),
    ]


def verdict(rounds: Rounds, starts: list[float]) -> list[Line]:
    """The lines with a target, for the lanes that ran."""
    call, bare, fastmcp, listed, static = (
        "gateway, call",
        "bare proxy, call",
        "FastMCP, call",
        "gateway, list",
        "static answer, list",
    )
    if call not in rounds:
        pairs = [(bare, fastmcp)] if fastmcp in rounds else []
        return [Line(f"{a} / {b}, requests/s", rate_ratios(rounds, a, b), Target()) for a, b in pairs]
    lines = [
        Line(
            "tools/call / bare proxy, requests/s",
            rate_ratios(rounds, call, bare),
            Target(0.55, goal=">= 1.25"),
        ),
        Line("tools/call / bare proxy, CPU", cpu_ratios(rounds, call, bare), Target(goal="<= 0.80")),
    ]
    if fastmcp in rounds:
        ratios = rate_ratios(rounds, call, fastmcp)
        lines.append(Line("tools/call / FastMCP's best mode, requests/s", ratios, Target(10, goal=">= 25")))
    kept, asked_for = microseconds_per_permit()
    leased = microseconds_per_shared_permit()
    a_call = statistics.median(figures.cpu for figures in rounds[call])
    return [
        *lines,
        Line(
            "tools/list of 20 / static, requests/s",
            rate_ratios(rounds, listed, static),
            Target(goal=">= 0.65"),
        ),
        Line(f"start-up of {COLD_TOOLS} tools", starts, Target(below=2), " s"),
        Line("a known token, per call", microseconds_per_warm_token(), Target(below=5), " us"),
        Line("a permit, its handle kept", kept, Target(below=2), " us"),
        Line("a permit, its handle asked for", asked_for, Target(below=8), " us"),
        Line("a permit of Redis, leased by tens, CPU", leased, Target(below=30), " us"),
        Line("the same / CPU of a tools/call", [one / a_call for one in leased], Target(below=0.2)),
        Line("permits beyond a burst of 100, 3 replicas", permits_beyond_the_burst(), Target(below=31)),
        Line("normalizing, per tool", milliseconds_per_tool(), Target(below=1), " ms"),
        Line("normalizing, 5,000 methods", seconds_for_many(), Target(below=5), " s"),
    ]


def main(arguments: list[str]) -> int:
    chosen = plan(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
            cores = two_cores()
            rounds, starts = measure(chosen, Path(folder), cores)
            lines = verdict(rounds, starts) + bounds(chosen, Path(folder), cores)
    except Unusable as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 2
    print(lanes_table(rounds), end="\n\n")
    print(lines_table(lines))
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
