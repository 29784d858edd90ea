"""One service of several whose backend hangs, and how much longer callers of another one wait beside it.

The gateway is a program of its own; both backends and the callers share the core of the load.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aiohttp import ClientSession, TCPConnector

from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.program import Program

_HANGING: Final = 200
_CALLS: Final = 300
_ROUNDS: Final = 5


def slowdowns() -> list[float]:
    """How many times as long callers of the quick service wait (99th percentile) while 200 calls of the other hang."""
    return asyncio.run(_slowdowns())


async def _slowdowns() -> list[float]:
    connections = TCPConnector(limit=2 * _HANGING)
    async with ScriptedBackend() as quick, ScriptedBackend() as slow, ClientSession(connector=connections) as session:
        slow.on("add", Hang("nothing"))
        knobs = (
            "server.port=0", "server.admin_port=0", "auth.mode=off",
            "limits.invocation=100000000/minute", f"limits.concurrent={2 * _HANGING}",
            f"services.quick.backend.url={quick.url}",
            f"services.slow.backend.url={slow.url}", "services.slow.backend.timeout=120s",
            f"services.slow.backend.connections={8 * _HANGING}",  # a caller may have a sixth of them for a tool
        )  # fmt: skip
        async with Program("serve", *(f"--set={knob}" for knob in knobs)) as program:
            for _ in range(2):
                await program.logged("listing refreshed")
            port = (await program.logged("gateway started"))["port"]
            await _patience(session, port)
            return [await _slowdown(session, port, slow) for _ in range(_ROUNDS)]


async def _slowdown(session: ClientSession, port: int, slow: ScriptedBackend) -> float:
    quiet = await _patience(session, port)
    before = slow.calls("add")
    hanging = [asyncio.create_task(_call(session, port, "slow")) for _ in range(_HANGING)]
    await slow.called("add", before + _HANGING)
    beside = await _patience(session, port)
    for call in hanging:
        call.cancel()
    await asyncio.wait(hanging)
    return beside / quiet


async def _patience(session: ClientSession, port: int) -> float:
    """Seconds that 99 of 100 calls of the quick service take at most."""
    waits = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        status = await _call(session, port, "quick")
        waits.append(time.perf_counter() - started)
        if status != 200:
            raise ValueError(f"a call of the quick service was answered with {status}")
    return sorted(waits)[int(_CALLS * 0.99)]


async def _call(session: ClientSession, port: int, service: str) -> int:
    message = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": {"a": 2, "b": 3}}
    async with session.post(f"http://127.0.0.1:{port}/{service}/jsonrpc", json=message) as answer:
        await answer.read()
        return answer.status
