"""Rows of ``make fault``: two gateways as processes with one Redis, of which one dies, or Redis does."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import aiohttp

from lab.fault.table import Figure, Line, Row
from tests.fault.behaviours import Hang
from tests.fault.methods import METHODS
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, settings
from tests.redis_server import RedisServer
from tests.waiting import until

_PAIRS: Final = 36
_PER_MINUTE: Final = 216
_LIMIT: Final = "600/minute"
_LOSSES: Final = 5
_PATIENCE: Final = 60.0
"""Seconds, more than any figure here was ever."""
_BACK: Final = 5.0
_TAKEN_OVER: Final = 4.0


@contextmanager
def _options(backend: ScriptedBackend, redis: RedisServer) -> Iterator[list[str]]:
    """What all replicas have in common."""
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.write_text("0123456789abcdef" * 2)
        secret.chmod(0o600)
        shared = (f"store.url={redis.url}", f"server.secret_file={secret}", f"limits.invocation={_LIMIT}")
        yield ["serve", *settings(backend.url, *shared, "backend.listing.dialect=openrpc")]


@asynccontextmanager
async def _two_replicas(redis: RedisServer) -> AsyncIterator[tuple[aiohttp.ClientSession, list[dict[str, int]]]]:
    """Start both, and give their ports."""
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(ScriptedBackend(METHODS))
        options = stack.enter_context(_options(backend, redis))
        programs = [await stack.enter_async_context(Program(*options)) for _ in range(2)]
        started = [await program.logged("gateway started") for program in programs]
        for program in programs:
            await program.logged("listing refreshed")
        yield await stack.enter_async_context(aiohttp.ClientSession()), started


async def calls_in_pairs() -> Line:
    """Call as one caller does who is at a third of the limit, at both replicas at one moment each time."""
    with RedisServer() as redis:
        async with _two_replicas(redis) as (session, replicas):

            async def call(port: int) -> int:
                body = {"name": "add", "arguments": {"a": 1, "b": 2}}
                async with session.post(f"http://127.0.0.1:{port}/mcp/tools/invoke", json=body) as answer:
                    return answer.status

            due, statuses = time.monotonic(), list[int]()
            for _ in range(_PAIRS):
                statuses += await asyncio.gather(*(call(replica["port"]) for replica in replicas))
                due += 2 * 60 / _PER_MINUTE
                await asyncio.sleep(max(0.0, due - time.monotonic()))
    refused, wrong = statuses.count(429), len(statuses) - statuses.count(200) - statuses.count(429)
    return Line(wrong=wrong, figures=(Figure(f"calls of {len(statuses)} refused within the limit", refused, 0),))


async def redis_comes_and_goes() -> Line:
    """Kill Redis and start it, and have it stand still for a moment, again and again. Measure until both use it."""
    redis = RedisServer()
    with redis:
        async with _two_replicas(redis) as (session, replicas):

            async def all_are(there: bool) -> bool:
                found = []
                for replica in replicas:
                    async with session.get(f"http://127.0.0.1:{replica['admin_port']}/readyz?verbose") as answer:
                        found.append("the store is unavailable" not in await answer.text())
                return found == [there] * len(replicas)

            waits = []
            for _ in range(_LOSSES):
                redis.kill()
                await until(lambda: all_are(False), within=_PATIENCE)
                redis.start()
                waits.append(await _seconds_until(lambda: all_are(True)))
                process = redis.control.info()["process_id"]
                os.kill(process, signal.SIGSTOP)
                await until(lambda: all_are(False), within=_PATIENCE)
                await asyncio.sleep(random.uniform(0, 3))  # an attempt may be under way, or not
                os.kill(process, signal.SIGCONT)
                waits.append(await _seconds_until(lambda: all_are(True)))
    return Line(figures=(Figure(f"until both use Redis, the longest of {len(waits)}", max(waits), _BACK, " s"),))


async def lister_dies() -> Line:
    """Measure how long it takes until the other one lists."""
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        backend = await stack.enter_async_context(ScriptedBackend(METHODS))
        backend.on("rpc.discover", Hang("nothing"))
        options = stack.enter_context(_options(backend, redis))
        dying, other = Program(*options), Program(*options)
        await stack.enter_async_context(dying)
        await until(lambda: len(backend.requests) == 1)
        await stack.enter_async_context(other)
        await other.said("the shared store is available")
        await asyncio.sleep(1)
        asked = len(backend.requests)
        dying.signal(signal.SIGKILL)
        waited = await _seconds_until(lambda: len(backend.requests) > asked)
    return Line(
        figures=(
            Figure("listings at once", asked, 1),
            Figure("until the other replica lists", waited, _TAKEN_OVER, " s"),
        )
    )


async def _seconds_until(look: Callable[[], object]) -> float:
    begun = time.monotonic()
    await until(look, within=_PATIENCE)
    return time.monotonic() - begun


ROWS: Final[dict[str, Row]] = {
    f"two replicas, calls in pairs, {_PER_MINUTE} of {_LIMIT}": calls_in_pairs,
    f"Redis is killed and stands still {_LOSSES} times": redis_comes_and_goes,
    "a replica is killed while it lists": lister_dies,
}
