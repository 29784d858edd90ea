"""One replica lists for all: who takes over where it dies, and how soon.

With Redis it is in tests/fault/test_shared_listing.py.
"""

from __future__ import annotations

import asyncio

from gateway.catalog.build import Builder
from gateway.config.source import load_settings
from gateway.discovery.discovery import Discovery
from gateway.discovery.shared_listing import SharedListing
from gateway.model import Caller, Catalog, Listing, Method
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params, ServiceSettings
from gateway.store.memory import MemoryStore
from tests.each import each
from tests.virtual_time import at, virtually
from tests.waiting import until

KNOBS = ("backend.url=http://127.0.0.1:1/jsonrpc", "backend.listing.timeout=5m", "auth.mode=off")


def settings() -> ServiceSettings:
    (settings,) = load_settings(None, KNOBS, {}).by_mount.values()
    return settings


class Shared(MemoryStore):
    """Memory of several replicas in one process. One that does not ``move`` does nothing any more. ``wanted`` is the
    lock that was asked for last."""

    is_shared = True  # type: ignore[misc]

    def __init__(self, of: Shared | None = None) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self.moves = asyncio.Event()
        self.moves.set()
        self.wanted = ""
        if of is not None:
            self._locks, self._subscribers, self._documents = of._locks, of._subscribers, of._documents

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
        self.wanted = key
        await self.moves.wait()
        return await super().acquire(key, ttl, token)

    async def release(self, key: str, token: str) -> None:
        await self.moves.wait()
        await super().release(key, token)


class Service:
    """Has no methods, and says so once it is ``ready``. ``asked`` are the times at which it was."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.asked: list[float] = []

    async def listing(self, _: Caller) -> Listing:
        self.asked.append(asyncio.get_running_loop().time())
        await self.ready.wait()
        return Listing("openrpc", (), digest="none")

    def listed_by(self, store: Shared) -> asyncio.Task[Listing]:
        return asyncio.create_task(SharedListing(self.listing, store, settings()).fetch_listing(Caller()))


@each("death", [20.0, 20.4, 20.9])
def test_who_died_while_it_listed_is_replaced_within_four_seconds(death: float) -> None:
    @virtually
    async def run() -> None:
        service, store = Service(), Shared()
        dying = Shared(store)
        first = service.listed_by(dying)
        await at(0.1)
        others = [service.listed_by(Shared(store)) for _ in range(3)]
        await at(death)
        assert len(service.asked) == 1, "for as long as it lists, the others wait"
        dying.moves.clear()
        first.cancel()
        await at(death + 4)
        assert len(service.asked) == 2, "one of the others lists"
        await at(death + 30)
        assert len(service.asked) == 2
        service.ready.set()
        assert {(await other).digest for other in others} == {"none"}

    run()


def test_who_stood_still_for_two_seconds_keeps_the_lock_and_for_four_seconds_loses_it() -> None:
    @virtually
    async def run() -> None:
        service, store = Service(), Shared()
        slow = Shared(store)
        first = service.listed_by(slow)
        await at(0.1)
        other = service.listed_by(store)
        for still, asked in ((2, 1), (4, 2)):
            begun = asyncio.get_running_loop().time()
            slow.moves.clear()
            await at(begun + still)
            slow.moves.set()
            await at(begun + 10)
            assert len(service.asked) == asked
        service.ready.set()
        assert [(await one).digest for one in (first, other)] == ["none", "none"]

    run()


class Replica:
    """Lists one tool, and builds catalogs once it ``may_build``."""

    def __init__(self, tool: str, store: Shared) -> None:
        self.may_build, self.building = asyncio.Event(), False
        self.listing = SharedListing(self._list, store, settings())
        self.discovery = Discovery(self.listing.fetch_listing, self, CatalogSettings())  # type: ignore[arg-type]
        self.listing.follow(self.discovery)
        self._tool = tool

    async def _list(self, _: Caller) -> Listing:
        return Listing("openrpc", (Method(self._tool, "openrpc"),), digest=self._tool)

    async def build_catalog(self, listing: Listing, settings: CatalogSettings) -> Catalog:
        self.building = True
        await self.may_build.wait()
        return await Builder(Params(), ValidatorCache()).build_catalog(listing, settings)

    def shows(self, tool: str) -> bool:
        catalog = self.discovery.current()
        return catalog is not None and catalog.names == (tool,)


async def test_a_replica_that_builds_a_catalog_hears_that_another_one_listed_meanwhile() -> None:
    store = Shared()
    slow, other = Replica("first", store), Replica("last", Shared(store))
    refresh = asyncio.create_task(slow.discovery.refresh())
    await until(lambda: slow.building)
    other.may_build.set()
    other.listing.ask_backend()
    await other.discovery.refresh()
    assert other.shows("last")
    slow.may_build.set()
    await refresh
    await until(lambda: slow.shows("last"))
    for replica in (slow, other):
        replica.listing.close()
        await replica.discovery.close()


async def test_who_gets_the_lock_just_after_another_one_listed_takes_its_document() -> None:
    store = Shared()
    late_store = Shared(store)
    first, late = Replica("first", store), Replica("late", late_store)
    late_store.moves.clear()
    waiting = asyncio.create_task(late.listing.fetch_listing(Caller()))  # it found no document, and wants the lock
    await until(lambda: late_store.wanted)
    listed = await first.listing.fetch_listing(Caller())
    late_store.moves.set()
    assert (await waiting).digest == listed.digest == "first"
    assert await store.acquire(late_store.wanted, 1.0)  # it gave the lock back
