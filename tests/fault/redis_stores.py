"""A replica's store before a Redis that comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from gateway.errors import StoreUnavailable
from gateway.settings.store import StoreSettings
from gateway.store import scripts
from gateway.store.redis import RedisStore
from gateway.store.redis_client import make_client
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until


async def soon(_: float) -> None:
    """The pause before Redis is tried again."""
    await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(
    server: RedisServer | str,
    when_away: Literal["refuse", "allow"] = "refuse",
    slow: float = PATIENCE,
    complete_after: float = 0,
    pause: Callable[[float], Awaitable[None]] = soon,
    time_script: str = scripts.SERVER_TIME,
    **more: Any,
) -> AsyncIterator[RedisStore]:
    url = server if isinstance(server, str) else server.url
    settings = StoreSettings(url=url, when_away=when_away, **more)
    store = RedisStore(
        make_client(settings),
        settings.when_away,
        time_script=time_script,
        pause=pause,
        slow=slow,
        complete_after=complete_after,
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def is_away(store: RedisStore) -> str:
    """Wait until the store has noticed, and return why it is unavailable."""
    return await until(lambda: store.problem.cause)


async def is_there(store: RedisStore) -> None:
    await until(lambda: not store.problem.cause)


async def until_added(store: RedisStore, key: str) -> None:
    """Mark a key, also where a busy machine made the store unavailable again meanwhile."""

    async def is_added() -> bool:
        try:
            await store.add(key, 60)
        except StoreUnavailable:
            return False
        return True

    await until(is_added)
