"""A discovery with a clock and a backend of the test's own. Nothing here sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from gateway.catalog.build import Builder
from gateway.discovery.discovery import PATIENCE, Discovery
from gateway.listing.dialect import NoListing, Step
from gateway.model import Caller, Catalog, Listing, Method, SourceAnswer
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests import waiting

ANYBODY = Caller()
TTL, MAX_STALE = 100.0, 1000.0


def listing_of(*methods: str, results: Mapping[str, Any] = MappingProxyType({})) -> Listing:
    return Listing("static", tuple(Method(name, result=results.get(name)) for name in methods))


class Backend:
    """A scripted fetch: answers with ``methods``, whose results have the schemas in ``results``, or raises
    ``failure``; while ``gate`` is closed it hangs. ``most`` is how many hung at the same time."""

    def __init__(self) -> None:
        self.methods: tuple[str, ...] = ("a", "b")
        self.failure: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.fetches: list[Caller] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.most = self._running = 0

    async def fetch(self, caller: Caller) -> Listing:
        self.fetches.append(caller)
        self._running += 1
        self.most = max(self.most, self._running)
        await self.gate.wait()
        self._running -= 1
        if self.failure is not None:
            raise self.failure
        return listing_of(*self.methods, results=self.results)


class World:
    """A discovery and all it depends on."""

    def __init__(self, fallback: Listing | None = None, patience: float = PATIENCE, **knobs: Any) -> None:
        self.now = 5000.0
        self.backend = Backend()
        self.knobs = CatalogSettings(ttl=TTL, max_stale=MAX_STALE, **knobs)
        self.builder: Any = Builder(Params(), ValidatorCache())
        self._fallback, self._patience = fallback, patience
        self.discovery = self.made()

    def made(self) -> Discovery:
        return Discovery(
            self.backend.fetch,
            self,
            self.knobs,
            lambda: self.now,
            fallback=self._fallback,
            patience=self._patience,
        )

    async def reload(self, **knobs: Any) -> None:
        """Go on with another discovery, as a reload does that leaves the backend as it is."""
        same = not knobs
        self.knobs = self.knobs if same else CatalogSettings(**{"ttl": TTL, "max_stale": MAX_STALE, **knobs})
        before, self.discovery = self.discovery, self.made()
        self.discovery.after_publish = before.after_publish
        self.discovery.before_publish = before.before_publish
        if not same:
            await self.discovery.prepare(before)
        self.discovery.take_over(before, listings=True, catalogs=same)

    async def build_catalog(self, listing: Listing, settings: CatalogSettings) -> Catalog:
        return await self.builder.build_catalog(listing, settings)

    @property
    def fetches(self) -> int:
        return len(self.backend.fetches)

    async def names(self, caller: Caller = ANYBODY) -> tuple[str, ...]:
        return (await self.discovery.catalog(caller)).names

    async def settled(self) -> None:
        """Let what was started in the background come to its end."""
        async with asyncio.timeout(waiting.PATIENCE):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)


def no_listing() -> NoListing:
    return NoListing([Step("rpc.discover", SourceAnswer("connection refused", unreachable=True))])


async def refreshed(world: World, at: float) -> tuple[str, ...]:
    world.now = at
    await world.names()
    await world.settled()
    return await world.names()


@asynccontextmanager
async def a_world(*arguments: Any, **knobs: Any) -> AsyncIterator[World]:
    world = World(*arguments, **knobs)
    yield world
    world.backend.gate.set()
    await world.settled()
