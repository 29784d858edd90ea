"""Knobs that callers feel: limits, turns, deadlines, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from lab.tuning.stand import KIB, SUM, Slow, callers, rate, stand
from tests.fault.behaviours import Hang, Stream
from tests.front import Front
from tests.program import serving
from tests.redis_server import RedisServer


async def connections(value: str) -> str:
    async with stand(f"backend.connections={value}") as it, callers(it, 32) as clients:
        it.service.on("add", Slow(0.05))
        calls = await rate(clients, 3)
        metrics = await it.metrics()
        waited = metrics.value("mcp_gateway_queue_wait_seconds_sum") / max(
            1, metrics.value("mcp_gateway_queue_wait_seconds_count")
        )
        return f"{calls:.0f} calls/s, {waited * 1000:.0f} ms mean wait"


async def queue_timeout(value: str) -> str:
    async with stand("backend.connections=4", f"backend.queue_timeout={value}") as it, callers(it, 24) as clients:
        it.service.on("add", Slow(0.4))
        clock = asyncio.get_running_loop().time
        begun = clock()
        calling = [asyncio.create_task(client.call("rest", "add", SUM)) for client in clients]
        refused, waits = 0, []
        for call in asyncio.as_completed(calling):
            refused += (await call).status == 503
            waits.append(clock() - begun)
        return f"{refused} of 24 refused, {max(waits):.1f} s the longest wait"


async def timeout(value: str) -> str:
    async with stand(f"backend.timeout={value}") as it:
        it.service.on("add", Hang("nothing"))
        clock = asyncio.get_running_loop().time
        begun = clock()
        status = (await it.add()).status
        return f"{status} after {clock() - begun:.1f} s"


async def tool_timeout(value: str) -> str:
    async with stand(f"catalog.tools={{add: {{timeout: {value}}}}}", "backend.timeout=1s") as it:
        it.service.on("add", Slow(1.5))
        right = (await it.statuses(4)).count(200)
        return f"{right} of 4 calls succeed"


async def invocation(value: str) -> str:
    async with stand(f"limits.invocation={value}") as it:
        refused = (await it.statuses(200)).count(429)
        return f"{refused} of 200 refused"


async def concurrent(value: str) -> str:
    async with stand(f"limits.concurrent={value}") as it:
        it.service.on("add", Slow(0.3))
        refused = (await it.statuses(40)).count(429)
        return f"{refused} of 40 refused"


async def max_response(value: str) -> str:
    async with stand(f"backend.max_response={value}") as it:
        it.service.on("echo", Stream(2 * KIB * KIB))
        answers = [await it.front.call("rest", "echo", {"value": 1}) for _ in range(10)]
        return f"{sum(answer.failed for answer in answers)} of 10 fail"


async def max_buffered(value: str) -> str:
    async with stand(f"server.max_buffered={value}") as it, callers(it, 8) as clients:
        it.service.on("echo", Stream(3 * KIB * KIB))
        calls = [client.call("rest", "echo", {"value": 1}) for client in clients for _ in range(4)]
        failed = sum(answer.failed for answer in await asyncio.gather(*calls))
        return f"{failed} of 32 fail, {it.program.peak_memory() / KIB / KIB:.0f} MiB at the peak"


async def max_connections(value: str) -> str:
    async with stand(f"server.max_connections={value}") as it, callers(it, 60) as clients:
        it.service.on("add", Slow(0.5))
        answers = await asyncio.gather(*(client.call("rest", "add", SUM) for client in clients))
        return f"{sum(answer.status == 503 for answer in answers)} of 60 refused"


async def trusted_proxies(value: str) -> str:
    async with stand("server.max_connections=100", f"server.trusted_proxies={value}") as it:
        it.service.on("add", Slow(0.5))
        return f"{(await it.statuses(60)).count(503)} of 60 refused"


async def shutdown_timeout(value: str) -> str:
    async with stand(f"server.shutdown_timeout={value}") as it:
        it.service.on("add", Slow(1.5))
        calling = [asyncio.create_task(it.add()) for _ in range(8)]
        async with asyncio.timeout(30):
            await it.service.called("add", 8)
        it.program.signal(signal.SIGTERM)
        answers = await asyncio.gather(*calling, return_exceptions=True)
        return f"{sum(isinstance(answer, BaseException) for answer in answers)} of 8 cut off"


async def drain_delay(value: str) -> str:
    async with stand(f"server.drain_delay={value}") as it:
        it.program.signal(signal.SIGTERM)
        await it.program.logged("stopping")
        lost = 0
        for _ in range(15):
            try:
                async with aiohttp.ClientSession() as newcomer:
                    lost += (await Front(it.front.port, newcomer).call("rest", "add", SUM)).status != 200
            except aiohttp.ClientError:
                lost += 1
            await asyncio.sleep(0.1)
        return f"{lost} of 15 new connections lost"


async def store_url(value: str) -> str:
    with contextlib.ExitStack() as stack:
        shared: tuple[str, ...] = ()
        if value != "memory:":
            redis = stack.enter_context(RedisServer())
            secret = f"server.secret_file={_secret(stack)}"
            shared = (f"store.url={redis.url}/0", secret)
        limit = "limits.invocation=600/minute"
        async with stand(limit, *shared) as first, serving(first.service.url, limit, *shared) as (program, front):
            if shared:
                for each in (first.program, program):
                    await each.logged("the shared store is available")
            called = await asyncio.gather(*(one.call("rest", "add", SUM) for one in (first.front, front) * 100))
        return f"{sum(each.status == 200 for each in called)} calls pass at once"


def _secret(stack: contextlib.ExitStack) -> str:
    file = Path(stack.enter_context(TemporaryDirectory())) / "secret"
    file.write_text("0123456789abcdef" * 4)
    file.chmod(0o600)
    return str(file)
