"""One replica lists for all: who takes over where it dies, and how soon.

With Redis it is in tests/fault/test_shared_listing.py.
"""

from __future__ import annotations

import asyncio

import pytest

from gateway.config.source import load_settings
from gateway.discovery.shared_listing import SharedListing
from gateway.model import Caller, Listing
from gateway.store.memory import MemoryStore
from tests.virtual_time import at, virtually

KNOBS = ("backend.url=http://127.0.0.1:1/jsonrpc", "backend.listing.timeout=5m", "auth.mode=off")


class Shared(MemoryStore):
    """Memory of several replicas in one process. One that does not ``move`` does nothing any more."""

    is_shared = True  # type: ignore[misc]

    def __init__(self, of: Shared | None = None) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self.moves = asyncio.Event()
        self.moves.set()
        if of is not None:
            self._locks, self._subscribers = of._locks, of._subscribers

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
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
        (settings,) = load_settings(None, KNOBS, {}).by_mount.values()
        return asyncio.create_task(SharedListing(self.listing, store, settings).fetch_listing(Caller()))


@pytest.mark.parametrize("death", [20.0, 20.4, 20.9])
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
