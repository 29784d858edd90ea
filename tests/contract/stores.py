"""The stores that one suite tests, each with a clock of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from gateway.signing import SigningKeys
from gateway.store import Permit, ResourceStore, ServerStore, Store
from gateway.store.memory import MemoryStore
from gateway.store.redis import RedisStore
from tests.manual_clock import ManualClock
from tests.redis_server import TEST_TIME, RedisServer, ServerClock

KINDS = ("memory", "one resource's", "redis", "one resource's in redis")
_RESOURCE = "https://gateway.example.com/mcp"
_SECRETS = (b"s" * 32,)


def clock_for(kind: str, server: RedisServer) -> ManualClock:
    return ServerClock(server) if "redis" in kind else ManualClock()


@asynccontextmanager
async def opened(kind: str, clock: ManualClock, server: RedisServer) -> AsyncIterator[Store]:
    store: ServerStore = MemoryStore(clock)
    if "redis" in kind:
        store = RedisStore(Redis(port=server.port, protocol=2), clock=clock, time_script=TEST_TIME, slow=10)
    await store.open()
    assert store.problem.cause == ""
    yield ResourceStore(store, SigningKeys(_SECRETS, _RESOURCE)) if "resource" in kind else store
    assert store.problem.cause == ""
    await store.close()


def of(store: Store, name: str) -> ResourceStore:
    return ResourceStore(store, SigningKeys(_SECRETS, f"https://{name}.example.com/mcp"))


async def taken(permit: Permit, most: int = 1000) -> int:
    """Return how many permits can be taken one by one, at most ``most``."""
    for count in range(most):
        if await permit.take():
            return count
    return most
