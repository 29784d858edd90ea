"""The real runs: what calls cost each program, and how many there are a second where the model says how many."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis as redis_py
from prometheus_client.parser import text_string_to_metric_families

from lab.bench import memory, work
from lab.bench.backend import Backend
from lab.bench.gateways import Gateway, Gateways, Plan, redis
from lab.bench.load import Figures, Lane
from lab.bench.machine import Process, two_cores
from lab.bench.tokens import microseconds_per_newcomer
from lab.scale.model import USUAL, Costs, Left, Parts, foretold

ROUNDS: Final = 5
SECONDS: Final = 2
POINTS: Final = (1, 4, USUAL, 500)
"""Calls under way, of the runs that a call's parts are taken from."""
CALLERS: Final = 10_000
"""Who take turns, and call so seldom that no leased permit is left from the time before: as those of a full replica."""
_WARMED_PER_SECOND: Final = 1000
SLOW: Final = 0.020
"""Seconds that the slow service takes."""
_LEAST_LEFT: Final = 0.05
_COMMANDS: Final = "mcp_gateway_store_commands_total"


@dataclass(frozen=True)
class Check:
    """A run that the model foretells: of one process or two workers, with a service that takes ``delay`` seconds."""

    what: str
    workers: int
    connections: int
    delay: float = 0.0

    @property
    def within(self) -> float:
        """How far the model may be off."""
        return 0.15 if self.workers == 1 else 0.25

    def foretold(self, costs: Costs, left: Left) -> float:
        """Return the calls a second that the model expects, of the share of the cores that was left."""
        stations = costs.one_process if self.workers == 1 else costs.two_workers
        return foretold(lambda calls: stations(calls, left), self.delay, self.connections)


CHECKS: Final = (
    Check("one process, 8 connections", 1, 8),
    Check("one process, 128 connections", 1, 128),
    Check("one process, 20 ms, 50 connections", 1, 50, SLOW),
    Check("one process, 20 ms, 150 connections", 1, 150, SLOW),
    Check("two workers, 32 connections", 2, 32),
    Check("two workers, 128 connections", 2, 128),
)


@dataclass(frozen=True)
class Checked:
    """The calls a second of each round, as foretold and as they were, and what other programs left of both cores."""

    check: Check
    foretold: Sequence[float]
    real: Sequence[float]
    left: Sequence[float]

    @property
    def off(self) -> float:
        """The median of the ratios of the rounds, less one."""
        return statistics.median(one / other for one, other in zip(self.foretold, self.real, strict=True)) - 1

    @property
    def holds(self) -> bool:
        return abs(self.off) <= self.check.within


@dataclass(frozen=True)
class Stretch:
    """A stretch of load: its figures, and microseconds of a core that the load, the service and Redis had for a call.
    ``commands`` is how often a call asked Redis, ``left`` what other programs left of the cores."""

    figures: Figures
    load: float
    service: float
    redis: float
    commands: float
    left: Left


class Field:
    """A gateway alone and one with Redis, each with a core to itself, and two workers on both cores. All have the same
    service; load, service and Redis share the other core. ``with`` ends what it started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._load_core, self._core = two_cores()
        os.sched_setaffinity(0, {self._load_core})
        self.backend = Backend(folder, self._load_core)
        self._redis, url = redis(folder, self._load_core)
        self._redis_port = int(url.rpartition(":")[2])
        gateways = Gateways(self.backend, folder, self._core)
        self.alone = gateways.make(Plan(services={"/fast": ("jsonrpc", 20), "/slow": ("slow", 20)}))
        self.shared = gateways.make(Plan(store=url))
        self.two = gateways.make(Plan(store=url, server={"workers": 2}), core=f"{self._load_core},{self._core}")
        self._stack = ExitStack()

    def __enter__(self) -> Field:
        try:
            self._stack.enter_context(self.backend.process)
            self._stack.enter_context(self._redis)
            for gateway, mount in ((self.alone, "/fast"), (self.shared, ""), (self.two, "")):
                self._stack.enter_context(gateway.process)
                gateway.process.wait_until(gateway.lane("starts", work.MODERN_CALL, mount).answers)
            self.idle = self.alone.process.memory()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def redis_memory(self) -> int:
        """Return the bytes that Redis has in use."""
        with redis_py.Redis(port=self._redis_port) as client:
            return int(client.info("memory")["used_memory"])

    def run(self, gateway: Gateway, lane: Lane, connections: int = USUAL, seconds: int = SECONDS) -> Stretch:
        """Run a lane, and say who worked how long on a call."""
        processes: list[Process] = [gateway.process, self.backend.process, self._redis]
        commands, cores, load = _commands(gateway), _busy(), _seconds_of_children()
        before, started = [one.scheduled().ran for one in processes], time.perf_counter()
        figures = lane.run(seconds, connections, self._load_core, self._folder)
        elapsed = time.perf_counter() - started
        of_gateway, service, of_redis = (
            (one.scheduled().ran - was) / 1e9 for one, was in zip(processes, before, strict=True)
        )
        load = _seconds_of_children() - load
        busy = {core: (seconds - cores[core]) / elapsed for core, seconds in _busy().items()}
        ours = (of_gateway / elapsed, (load + service + of_redis) / elapsed)
        calls = figures.rate * seconds
        of_load, of_service, for_redis = (part * 1e6 / calls for part in (load, service, of_redis))
        asked = (_commands(gateway) - commands) / calls
        return Stretch(figures, of_load, of_service, for_redis, asked, self._left(gateway, busy, ours))

    def _left(self, gateway: Gateway, busy: Mapping[int, float], ours: tuple[float, float]) -> Left:
        """Return what others left, of how busy the cores were, and of our own part: the gateway's, and all the rest."""
        of_core, of_load_core = busy[self._core], busy[self._load_core]
        if gateway is self.two:  # all of it on both cores
            both = _share_left((of_core + of_load_core - sum(ours)) / 2)
            return Left(both, both)
        return Left(_share_left(of_core - ours[0]), _share_left(of_load_core - ours[1]))

    def check(self, check: Check) -> Stretch:
        """Make a run that the model foretells."""
        mount = "" if check.workers == 2 else "/slow" if check.delay else "/fast"
        gateway = self.two if check.workers == 2 else self.alone
        lane = gateway.lane(check.what, work.MODERN_CALL, mount)
        return self.run(gateway, lane, check.connections)


def _share_left(others: float) -> float:
    """Return what is left of a core beside what others had of it: something always is, and times are not exact."""
    return min(1.0, max(_LEAST_LEFT, 1 - others))


def measure(rounds: int = ROUNDS) -> tuple[Costs, list[Checked]]:
    """Return the medians of the costs, and each check. The costs and the checks of a round are measured one after the
    other, so that what else the machine does concerns both."""
    costs: list[Costs] = []
    runs: dict[Check, list[Stretch]] = {check: [] for check in CHECKS}
    known = _known()
    with tempfile.TemporaryDirectory(prefix="gateway-scale-") as folder, Field(Path(folder)) as field:
        many = field.shared.callers("many callers", work.MODERN_CALL, CALLERS)
        empty = field.redis_memory()
        field.run(field.shared, many, seconds=CALLERS // _WARMED_PER_SECOND)
        known |= {"idle": field.idle, "redis_caller": (field.redis_memory() - empty) / CALLERS}
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            costs.append(_costs(field, many, known))
            for check in CHECKS:
                runs[check].append(field.check(check))
    return _middle(costs), [_checked(check, costs, runs[check]) for check in CHECKS]


def _checked(check: Check, costs: Sequence[Costs], runs: Sequence[Stretch]) -> Checked:
    """Compare each run with what the costs of its round foretell."""
    expected = [check.foretold(found, run.left) for found, run in zip(costs, runs, strict=True)]
    return Checked(check, expected, [run.figures.rate for run in runs], [run.left.of_both for run in runs])


def _costs(field: Field, many: Lane, known: dict[str, float]) -> Costs:
    """Return the costs of a round."""
    lane = field.alone.lane("alone", work.MODERN_CALL, "/fast")
    alone = {calls: field.run(field.alone, lane, calls) for calls in POINTS}
    listed = field.run(field.alone, field.alone.lane("list", work.LIST, "/fast"))
    leased = field.run(field.shared, field.shared.lane("leased", work.MODERN_CALL))
    shared = field.run(field.shared, many)
    return Costs(
        parts=tuple(Parts(calls, run.figures.cpu, run.load, run.service) for calls, run in alone.items()),
        shared=shared.figures.cpu,
        commands=shared.commands,
        command=shared.redis / shared.commands,
        sharing=leased.figures.cpu - alone[USUAL].figures.cpu,
        leased=leased.commands,
        listed=listed.figures.cpu,
        **known,
    )


def _middle(costs: Sequence[Costs]) -> Costs:
    """Return the median of each figure."""

    def middle(of: Sequence[Any]) -> dict[str, Any]:
        return {name: statistics.median(getattr(one, name) for one in of) for name in vars(of[0]) if name != "parts"}

    parts = zip(*(one.parts for one in costs), strict=True)
    return Costs(parts=tuple(Parts(**middle(same)) for same in parts), **middle(costs))


def _known() -> dict[str, float]:
    """Return what needs no run under load: a newcomer's costs, and memory of a caller and of a stream."""
    say("newcomers, callers and streams")
    return {
        "newcomer": statistics.median(microseconds_per_newcomer()),
        "caller": statistics.median(memory.bytes_per_caller()),
        "stream": statistics.median(memory.bytes_per_stream()),
    }


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what} ...", file=sys.stderr, flush=True)


def _seconds_of_children() -> float:
    """Return the seconds of a core that ended children had: the load is one, the servers have not ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _busy() -> dict[int, float]:
    """Return the seconds in which each core of the machine did something, for whomever."""
    lines = (line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines())
    ticks = {
        int(name[3:]): sum(map(int, (user, nice, system, irq, softirq, steal)))
        for name, user, nice, system, _, _, irq, softirq, steal, *_ in (line for line in lines if len(line) > 9)
        if name.startswith("cpu") and name != "cpu"
    }
    return {core: used / os.sysconf("SC_CLK_TCK") for core, used in ticks.items()}


def _commands(gateway: Gateway) -> float:
    """Return how many commands a gateway has sent to Redis."""
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.admin_port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return sum(sample.value for family in families for sample in family.samples if sample.name == _COMMANDS)
