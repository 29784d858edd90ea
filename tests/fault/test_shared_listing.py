"""Replicas share a listing over a real Redis: who waits for another one, and for how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from gateway.config.source import load_settings
from gateway.discovery.shared_listing import SharedListing
from gateway.model import Caller, Listing, Method
from gateway.store import MAX_DOCUMENT
from gateway.store.redis import RedisStore
from tests.fault.redis_stores import opened
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

KNOBS = ("backend.url=http://127.0.0.1:1/jsonrpc", "backend.listing.timeout=5m", "auth.mode=off")
LOCK = "jsonrpc-mcp-gateway:lock:listing:*"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def stores(server: RedisServer) -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    async with AsyncExitStack() as stack:
        yield (await stack.enter_async_context(opened(server)), await stack.enter_async_context(opened(server)))


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


def shared(service: Service, store: RedisStore) -> SharedListing:
    (settings,) = load_settings(None, KNOBS, {}).by_mount.values()
    return SharedListing(service.listing, store, settings)


async def test_who_waits_for_another_replica_lists_itself_once_redis_is_gone(
    server: RedisServer, stores: tuple[RedisStore, RedisStore]
) -> None:
    service = Service()
    one, other = (asyncio.create_task(shared(service, store).fetch_listing(Caller())) for store in stores)
    await until(lambda: server.control.keys(LOCK))
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
