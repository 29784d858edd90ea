"""A closed queueing network of the machine that measures, and the needs of a fleet: both of measured costs alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gateway.auth.authenticator import MAX_TOKENS
from gateway.discovery.views import MAX_VIEWS
from gateway.settings import Settings

USUAL: Final = 32
"""The calls under way of the runs that costs are taken from, if nothing else is said."""
_STEPS: Final = 40
BUSY: Final = 0.6
"""The share of a core that is planned with: at it a call waits for one and a half others on average."""
POD: Final = 512 * 1024**2
"""Bytes of memory that a replica may have."""
CONNECTIONS: Final = Settings.model_fields["server"].get_default(call_default_factory=True).max_connections


@dataclass(frozen=True)
class Station:
    """What works on calls: the seconds of a core that a call needs there, and how many cores do that work."""

    demand: float
    cores: int = 1


def calls_per_second(stations: Sequence[Station], delay: float, connections: int) -> float:
    """Return how many calls a second ``connections`` clients make, who call again as soon as they are answered.

    This is mean value analysis: an arriving call finds at each station the queue of a network with one client less.
    ``delay`` is the seconds of a call in which it needs no core. A station of several cores is one core that is as many
    times as fast, and a delay for the rest (Seidmann's approximation).
    """
    quick = [station.demand / station.cores for station in stations]
    delay += sum(station.demand - fast for station, fast in zip(stations, quick, strict=True))
    queues, rate = [0.0] * len(stations), 0.0
    for clients in range(1, connections + 1):
        times = [fast * (1 + queue) for fast, queue in zip(quick, queues, strict=True)]
        rate = clients / (delay + sum(times))
        queues = [rate * time for time in times]
    return rate


@dataclass(frozen=True)
class Parts:
    """Microseconds of a core that a call takes of the gateway, the load and the service, while so many are under way.

    It depends on their number: one turn of an event loop serves all that have come, so few at once cost more each; and
    many hundred do not stay in the processor's caches.
    """

    calls: int
    gateway: float
    load: float
    service: float


@dataclass(frozen=True)
class Left:
    """The share that other programs left of the gateway's core, and of the core of load and service, during a run."""

    core: float = 1.0
    load_core: float = 1.0

    @property
    def of_both(self) -> float:
        return (self.core + self.load_core) / 2


@dataclass(frozen=True)
class Costs:
    """What was measured. Times are microseconds of a core, memory is in bytes, all of one call or one caller.

    ``parts`` are of a call without a shared store, at several numbers of calls under way, sorted. ``shared`` is the
    gateway's part with limits in Redis and many callers, whose ``commands`` cost Redis ``command`` each; ``sharing`` is
    what limits in Redis add for one caller, who asks it ``leased`` times a call. ``newcomer`` is a caller's first
    request: its token is verified, and its view made.
    """

    parts: tuple[Parts, ...]
    shared: float
    commands: float
    command: float
    sharing: float
    leased: float
    listed: float
    newcomer: float
    idle: float
    caller: float
    stream: float
    redis_caller: float

    def at(self, calls: float) -> Parts:
        """Return the parts of a call while so many are under way, between those measured: by the logarithm."""
        calls = min(max(calls, self.parts[0].calls), self.parts[-1].calls)
        low, high = next(pair for pair in pairwise(self.parts) if calls <= pair[1].calls)
        share = math.log(calls / low.calls) / math.log(high.calls / low.calls)
        between = [one + share * (other - one) for one, other in zip(_times(low), _times(high), strict=True)]
        return Parts(round(calls), *between)

    def one_process(self, calls: float, left: Left) -> list[Station]:
        """Return the gateway on a core to itself, load and service on the other one."""
        parts = self.at(calls)
        return [
            Station(parts.gateway / 1e6 / left.core),
            Station((parts.load + parts.service) / 1e6 / left.load_core),
        ]

    def two_workers(self, calls: float, left: Left) -> list[Station]:
        """Return two workers with half of the calls each, the load, the service and Redis, all on two cores."""
        parts, worker = self.at(calls), self.at(calls / 2)
        of_redis = self.sharing + self.leased * self.command
        whole = worker.gateway + parts.load + parts.service + of_redis
        return [Station(whole / 1e6 / left.of_both, cores=2)]

    def planned(self) -> float:
        """Return a call's microseconds where the core is as busy as is planned: few calls are under way then."""
        usual = next(one for one in self.parts if one.calls == USUAL)
        return self.shared * self.at(BUSY / (1 - BUSY)).gateway / usual.gateway


def _times(parts: Parts) -> tuple[float, float, float]:
    return parts.gateway, parts.load, parts.service


def foretold(stations: Callable[[float], list[Station]], delay: float, connections: int) -> float:
    """Return calls a second where ``stations`` depend on how many calls are under way beside those in the delay."""
    under_way, rate = float(connections), 0.0
    for _ in range(_STEPS):
        rate = calls_per_second(stations(under_way), delay, connections)
        under_way = (under_way + max(1.0, connections - rate * delay)) / 2
    return rate


@dataclass(frozen=True)
class Habit:
    """What a caller does: calls, listings and new tokens a minute, and streams that it holds open."""

    calls: float = 6.0
    lists: float = 0.2
    tokens: float = 1 / 60
    streams: float = 1.0


@dataclass(frozen=True)
class Needs:
    """What ``callers`` need. ``memory`` is in bytes, of one replica. ``busy`` has the share of each limit that is used,
    where 1 is the limit, and ``first`` is the one with the largest."""

    callers: int
    calls: float
    cores: float
    replicas: int
    memory: float
    redis_commands: float
    redis_memory: float
    wait: float
    busy: Mapping[str, float]

    @property
    def first(self) -> str:
        return max(self.busy, key=lambda name: self.busy[name])


def needs(costs: Costs, habit: Habit, callers: int) -> Needs:
    """Return what so many callers need of replicas with one core each, whose limits are those of the defaults."""
    calls = callers * habit.calls / 60
    worked = habit.calls * costs.planned() + habit.lists * costs.listed + habit.tokens * costs.newcomer
    cores = callers * worked / 60 / 1e6
    per_caller = costs.caller + habit.streams * costs.stream
    room = POD - costs.idle - _buffers()
    of_each = {
        "a core": cores / BUSY,
        "connections": callers * (1 + habit.streams) / CONNECTIONS,
        "tokens that are kept": callers / MAX_TOKENS,
        "views that are kept": callers / MAX_VIEWS,
        "memory": callers * per_caller / room,
    }
    replicas = max(1, math.ceil(max(of_each.values())))
    commands = calls * costs.commands
    busy = {name: share / replicas for name, share in of_each.items()} | {
        "Redis": commands * costs.command / 1e6 / BUSY
    }
    return Needs(
        callers=callers,
        calls=calls,
        cores=cores,
        replicas=replicas,
        memory=costs.idle + callers / replicas * per_caller,
        redis_commands=commands,
        redis_memory=callers * costs.redis_caller,
        wait=_wait(costs.planned() / 1e6, cores / replicas),
        busy=busy,
    )


def breaking_points(costs: Costs, habit: Habit) -> dict[str, int]:
    """Return at how many callers each limit is reached: by one replica, and that of Redis by all together."""
    many = 1_000_000
    found = needs(costs, habit, many)
    return {
        name: int(many / (share if name == "Redis" else share * found.replicas)) for name, share in found.busy.items()
    }


def _wait(demand: float, busy: float) -> float:
    """Return the seconds that 99 of 100 calls take at most beside the service's: M/M/1, at this share of a core."""
    return demand * math.log(100) / (1 - min(busy, BUSY))


def _buffers() -> float:
    """Return the bytes that bodies and results may take: docs/scaling.md says why half as much again."""
    server = Settings.model_fields["server"].get_default(call_default_factory=True)
    return 1.5 * float(server.max_buffered)
