"""A gateway as a process, the service behind it, and callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from tests.fault.behaviours import Behaviour, Exchange, Honest
from tests.fault.load import addresses, session
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import Called, Front
from tests.program import Program, serving
from tests.protocol.talk import modern_headers, modern_request
from tests.scrape import Scrape, scrape

SUM: Final = {"a": 2, "b": 3}
KIB: Final = 1024


HONEST: Final = Honest()


@dataclass(frozen=True)
class Slow:
    """A service that takes ``seconds`` for each answer, as one that computes."""

    seconds: float
    then: Behaviour = HONEST

    async def play(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await self.then.play(exchange)


@dataclass(frozen=True)
class Stand:
    """The running gateway, and the service behind it."""

    program: Program
    front: Front
    session: aiohttp.ClientSession
    service: ScriptedBackend
    admin: int

    async def metrics(self) -> Scrape:
        return await scrape(self.session, self.admin)

    async def add(self) -> Called:
        """Call the tool ``add`` over REST."""
        return await self.front.call("rest", "add", SUM)

    async def statuses(self, times: int) -> list[int]:
        """Return the statuses of so many calls at once, from one address: one caller."""
        return [called.status for called in await asyncio.gather(*(self.add() for _ in range(times)))]

    async def list_text(self) -> str:
        """Return the body of ``tools/list``, as a client of 2026-07-28 gets it."""
        headers = {"Accept": "application/json, text/event-stream", **modern_headers("tools/list")}
        async with self.session.post(self.front.mcp, json=modern_request("tools/list"), headers=headers) as response:
            assert response.status == 200
            return await response.text()


@asynccontextmanager
async def stand(*knobs: str, methods: Sequence[Rpc] = METHODS) -> AsyncIterator[Stand]:
    """Start a service with these methods and a gateway with these knobs, and wait until it has listed."""
    async with (
        ScriptedBackend(methods) as service,
        serving(service.url, *knobs) as (program, front),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as own,
    ):
        admin = (await program.logged("gateway started"))["admin_port"]
        yield Stand(program, Front(front.port, own), own, service, admin)


@asynccontextmanager
async def callers(it: Stand, count: int) -> AsyncIterator[list[Front]]:
    """Open clients of ``count`` addresses: each is a caller of its own."""
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(session(address)) for address in addresses(7, count)]
        yield [Front(it.front.port, each) for each in sessions]


async def rate(clients: Iterable[Front], seconds: float) -> float:
    """Return the calls per second that succeed where each client calls one after the other."""
    clock = asyncio.get_running_loop().time
    begun, right = clock(), 0

    async def work(client: Front) -> None:
        nonlocal right
        while clock() - begun < seconds:
            status = (await client.call("rest", "add", SUM)).status
            right += status == 200

    await asyncio.gather(*(work(client) for client in clients))
    return right / (clock() - begun)


def many(count: int) -> list[Rpc]:
    """Return ``count`` methods with a text and an argument each; every tenth is of ``shop``."""
    names = [f"{'shop' if number % 10 == 0 else 'stock'}.method{number}" for number in range(count)]
    argument: dict[str, Any] = {"article": {"type": "string", "description": "The number of an article"}}
    return [Rpc(name, argument, {}, f"What {name} does with one article") for name in names]
