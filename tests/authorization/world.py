"""A discovery with a clock and a backend of the test's own, for callers with tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.catalog.build import Builder
from gateway.discovery.discovery import Discovery
from gateway.listing.dialect import NoListing, Step
from gateway.model import AccessToken, Caller, Listing, Method, Principal, SourceAnswer, View
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.waiting import PATIENCE

TTL: Final = 100.0
MAX_STALE: Final = 1000.0
ISSUER: Final = "https://login.example.com"


class World:
    """A discovery whose backend lists to each token what ``listed`` says, or raises that; while ``gate`` is closed it
    hangs."""

    def __init__(self) -> None:
        self.now = 5000.0
        self.listed: dict[str, tuple[str, ...] | Exception] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[str] = []
        self._asking = asyncio.Condition()
        self.knobs = CatalogSettings(ttl=TTL, max_stale=MAX_STALE)
        self.told: list[View] = []
        self.discovery = self.made(callers_own=True)

    def made(self, *, callers_own: bool) -> Discovery:
        builder = Builder(Params(), ValidatorCache())
        made = Discovery(self.fetch, builder, self.knobs, lambda: self.now, uses_callers_token=callers_own)
        made.after_publish = self.told.append
        return made

    async def reload(self, knobs: CatalogSettings, *, listings: bool = True) -> None:
        """Go on with another discovery, before the same backend or, without ``listings``, before another one."""
        self.knobs = knobs
        before, self.discovery = self.discovery, self.made(callers_own=True)
        if listings:
            await self.discovery.prepare(before)
        self.discovery.take_over(before, listings=listings, catalogs=False)

    async def fetch(self, caller: Caller) -> Listing:
        token = caller.principal.token.reveal() if caller.principal else ""
        async with self._asking:
            self.asked.append(token)
            self._asking.notify_all()
        await self.gate.wait()
        answer = self.listed.get(token, ("a", "b"))
        if isinstance(answer, Exception):
            raise answer
        methods = tuple(Method(name) for name in answer)
        return Listing("static", methods, digest=" ".join(answer), size=100)

    async def names(self, caller: Caller) -> tuple[str, ...]:
        return (await self.discovery.catalog(caller)).names

    async def has_asked(self, *tokens: str) -> None:
        """Return once the backend was asked with these."""
        async with asyncio.timeout(PATIENCE), self._asking:
            await self._asking.wait_for(lambda: self.asked == [*tokens])

    async def settled(self) -> None:
        """Let what was started in the background come to its end."""
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    """A world whose background work comes to its end with it."""
    world = World()
    yield world
    world.gate.set()
    await world.settled()


def caller(token: str, subject: str = "ann") -> Caller:
    principal = Principal(ISSUER, subject, "client", frozenset(), 1e12, AccessToken(token))
    return Caller("127.0.0.1", View(ISSUER, subject), principal)


ANN, ANN_LATER, BOB = caller("ann-1"), caller("ann-2"), caller("bob-1", "bob")


def refusal(*, unauthorized: bool) -> NoListing:
    return NoListing([Step("rpc.discover", SourceAnswer("HTTP 40x", denied=True, unauthorized=unauthorized))])


def down() -> NoListing:
    return NoListing([Step("rpc.discover", SourceAnswer("connection refused", unreachable=True))])
