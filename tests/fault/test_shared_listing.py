"""Replicas share a listing over a real Redis: who waits for another one, and for how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gateway.config.source import load_settings
from gateway.discovery.shared_listing import SharedListing
from gateway.model import Caller, Listing, Method
from gateway.store import MAX_DOCUMENT
from gateway.store.redis import RedisStore
from tests.fault.redis_stores import opened
from tests.redis_server import TEST_TIME, RedisServer, ServerClock
from tests.waiting import PATIENCE, until

KNOBS = ("backend.url=http://127.0.0.1:1/jsonrpc", "backend.listing.timeout=5m", "auth.mode=off")
LOCK = "jsonrpc-mcp-gateway:lock:listing:*"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def stores(server: RedisServer) -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    """Open the stores of two replicas. Redis' clock stands still: no lock ends because the machine is slow."""
    ServerClock(server)
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(opened(server, time_script=TEST_TIME)) for _ in range(2)]
        yield one, other


class Service:
    """What is listed, and how often. It answers once it is ``ready``."""

    def __init__(self, description: str = "") -> None:
        self.ready = asyncio.Event()
        self.asked = 0
        self._description = description

    async def listing(self, _: Caller) -> Listing:
        self.asked += 1
        number = self.asked
        await self.ready.wait()
        return Listing("openrpc", (Method("add", self._description),), digest=f"listing {number}")


class Noting:
    """A replica's store that counts how often it was refused a lock."""

    def __init__(self, store: RedisStore) -> None:
        self.refused = 0
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
        got = await self._store.acquire(key, ttl, token)
        self.refused += not got
        return got


def shared(service: Service, store: RedisStore | Noting) -> SharedListing:
    (settings,) = load_settings(None, KNOBS, {}).by_mount.values()
    return SharedListing(service.listing, store, settings)  # type: ignore[arg-type]


async def test_who_waits_for_another_replica_lists_itself_once_redis_is_gone(
    server: RedisServer, stores: tuple[RedisStore, RedisStore]
) -> None:
    service = Service()
    one = asyncio.create_task(shared(service, stores[0]).fetch_listing(Caller()))
    # Its lock is in Redis two answers before it asks the service: wait for what it does, not for the lock.
    await until(lambda: service.asked)
    waits = Noting(stores[1])
    other = asyncio.create_task(shared(service, waits).fetch_listing(Caller()))
    await until(lambda: waits.refused)
    assert service.asked == 1
    server.kill()
    await until(lambda: service.asked == 2)
    service.ready.set()
    assert {(await one).digest, (await other).digest} == {"listing 1", "listing 2"}


async def test_who_missed_that_the_other_replica_is_done_takes_its_document(
    server: RedisServer, stores: tuple[RedisStore, RedisStore]
) -> None:
    service = Service()
    one = asyncio.create_task(shared(service, stores[0]).fetch_listing(Caller()))
    await until(lambda: service.asked)
    waits = shared(service, stores[1])  # it follows nothing, so it hears no notice
    other = asyncio.create_task(waits.fetch_listing(Caller()))
    service.ready.set()
    assert (await one).digest == (await asyncio.wait_for(other, PATIENCE)).digest == "listing 1"
    assert not server.control.keys(LOCK)


class Shown:
    """What a replica shows: it refreshes again where it hears that another one lists something else."""

    def __init__(self, listing: SharedListing) -> None:
        self.digest = ""
        self._listing = listing
        self._one_at_a_time = asyncio.Lock()
        listing.follow(self)  # type: ignore[arg-type]

    async def refresh_again(self) -> None:
        async with self._one_at_a_time:
            self.digest = (await self._listing.fetch_listing(Caller())).digest


async def test_two_that_list_at_once_show_the_same_afterwards(
    server: RedisServer, stores: tuple[RedisStore, RedisStore]
) -> None:
    """The lock of a replica that stands still for seconds ends, and another one lists, too."""
    service = Service()
    one, other = (Shown(shared(service, store)) for store in stores)
    refreshes = [asyncio.create_task(shown.refresh_again()) for shown in (one, other)]
    (lock,) = await until(lambda: server.control.keys(LOCK))
    server.control.delete(lock)
    await until(lambda: service.asked == 2)
    service.ready.set()
    await asyncio.gather(*refreshes)
    await until(lambda: one.digest == other.digest)
    assert service.asked == 2
    assert not server.control.keys(LOCK)


@pytest.mark.parametrize("large", [False, True], ids=["small", "larger than a document"])
async def test_others_are_told_of_a_listing_that_they_can_have(
    stores: tuple[RedisStore, RedisStore], large: bool
) -> None:
    """Else they would each list, and where a service answers each time something else, tell each other without end."""
    service = Service(random.Random(1).randbytes(2 * MAX_DOCUMENT).hex() if large else "")
    service.ready.set()
    told: list[bytes] = []
    lister = shared(service, stores[0])
    stores[0].subscribe(lister._key, told.append)
    await lister.fetch_listing(Caller())
    assert told == [b"" if large else b"listing 1"]
