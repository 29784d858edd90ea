"""Calls of one caller to several replicas with one Redis: minutes of them in seconds, with the scripts themselves.

seen = await traffic(server, replicas=4, rate=10, burst=60, load=0.8, group=2, minutes=10)
assert seen.refused == 0
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from gateway.store.redis import RedisStore
from tests.manual_clock import ManualClock
from tests.redis_server import TEST_TIME, RedisServer

_PATIENCE = 10.0
_KEY = "k"


@dataclass(frozen=True)
class Seen:
    """How many calls there were, how many of them were refused, and how often Redis was asked for permits."""

    calls: int
    refused: int
    commands: int


@asynccontextmanager
async def replicas_of(server: RedisServer, clock: ManualClock, count: int) -> AsyncIterator[list[RedisStore]]:
    async with AsyncExitStack() as stack:
        stores = [
            RedisStore(Redis(port=server.port, protocol=2), clock=clock, time_script=TEST_TIME, slow=_PATIENCE)
            for _ in range(count)
        ]
        for store in stores:
            await store.open()
            stack.push_async_callback(store.close)
        yield stores


async def traffic(
    server: RedisServer, *, replicas: int, rate: float, burst: int, load: float, group: int, minutes: float
) -> Seen:
    """``load`` is the share of ``rate`` that is called, in groups of so many at one moment, each call to a replica by
    chance."""
    server.control.flushall()
    clock, chosen = ManualClock(), random.Random(1)
    groups = int(minutes * 60 * rate * load / group)
    refused = 0
    server.control.set("test-clock", round(clock.now * 1e6))
    async with replicas_of(server, clock, replicas) as stores:
        before = _commands(server)
        for number in range(groups):
            clock.now = 1000 + number * group / rate / load
            server.control.set("test-clock", round(clock.now * 1e6))
            waits = await asyncio.gather(
                *(chosen.choice(stores).permit(_KEY, rate, burst).take() for _ in range(group))
            )
            refused += group - waits.count(0)
        return Seen(groups * group, refused, _commands(server) - before)


def _commands(server: RedisServer) -> int:
    """Return how often permits were asked for: what ran within Redis, without the replicas' signs of life."""
    stats = server.control.info("commandstats")
    return int(stats["cmdstat_evalsha"]["calls"]) - int(stats["cmdstat_zadd"]["calls"])
