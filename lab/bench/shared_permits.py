"""What permits of a store in Redis cost this process, and how many are given out beyond a limit."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from gateway.settings.store import StoreSettings
from gateway.store import ServerStore
from gateway.store.choice import make_store
from tests.redis_server import RedisServer

_KEYS = 400
_BURST = 100
_TAKEN = 50
_RATE = 1 / 3600
_REPEATS = 5
_REPLICAS = 3


def microseconds_per_shared_permit() -> list[float]:
    """CPU for one permit, where they are leased by tens: a burst of a hundred, of which half is taken."""
    return asyncio.run(_cost())


def permits_beyond_the_burst() -> list[float]:
    """How many more than a burst of a hundred three replicas give out together, and at most one lease of ten each."""
    return asyncio.run(_excess())


async def _cost() -> list[float]:
    figures = []
    with RedisServer() as server:
        store = await _opened(server)
        for repeat in range(_REPEATS):
            started = time.process_time()
            for key in range(_KEYS):
                permit = store.permit(f"bench:{repeat} {key}", _RATE, _BURST)
                for _ in range(_TAKEN):
                    if await permit.take():
                        raise ValueError("what is measured is a permit that is there")
            figures.append((time.process_time() - started) / (_KEYS * _TAKEN) * 1e6)
        await store.close()
    return figures


async def _excess() -> list[float]:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(RedisServer())
        stores = [await _opened(server) for _ in range(_REPLICAS)]
        figures = []
        for repeat in range(_REPEATS):
            given = await asyncio.gather(*(_take_all(store, f"bench:{repeat}") for store in stores))
            figures.append(float(sum(given) - _BURST))
        for store in stores:
            await store.close()
    return figures


async def _opened(server: RedisServer) -> ServerStore:
    store = make_store(StoreSettings(url=server.url))
    await store.open()
    if store.problem.cause:
        raise ValueError(f"Redis is unavailable: {store.problem.cause}")
    return store


async def _take_all(store: ServerStore, key: str) -> int:
    permit, count = store.permit(key, _RATE, _BURST), 0
    while not await permit.take():
        count += 1
        await asyncio.sleep(0)
    return count
