"""Rows of ``make fault``: the network between the gateway and one service is at fault, and callers of another wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final

from lab.fault.rounds import measured
from lab.fault.stage import stage
from lab.fault.table import Line, Row
from tests.fault.proxy import SOUND, Bandwidth, Blackhole, Fault, FaultProxy, HalfOpen, Latency, Reset, Slicing, Surplus


async def behind(trouble: Callable[[FaultProxy], AbstractAsyncContextManager[None]]) -> Line:
    """A fault of the proxy, for the callers of the service behind it."""
    async with stage() as it:
        return await measured(it.ledger, lambda: trouble(it.proxy), await it.healthy(), await it.troubled())


@asynccontextmanager
async def spoilt(fault: Fault, proxy: FaultProxy) -> AsyncIterator[None]:
    proxy.fault = fault
    try:
        yield
    finally:
        proxy.fault = SOUND


@asynccontextmanager
async def gone(proxy: FaultProxy) -> AsyncIterator[None]:
    """Nobody listens at the service's port."""
    await proxy.close()
    try:
        yield
    finally:
        await proxy.open()


_FAULTS: Final[dict[str, Fault]] = {
    "latency, 200 ms each way": Latency(0.2),
    "slicing, 16 bytes at a time": Slicing(16),
    "bandwidth, 10 KB/s": Bandwidth(10_000),
    "surplus bytes after answers": Surplus(),
    "reset as a request comes": Reset("requests"),
    "reset in the middle of an answer": Reset("answers", after=100),
    "half-open connections": HalfOpen(),
    "blackhole": Blackhole(),
    "blackhole of answers alone": Blackhole("answers"),
}
ROWS: Final[dict[str, Row]] = {
    **{name: partial(behind, partial(spoilt, fault)) for name, fault in _FAULTS.items()},
    "the service goes and returns": partial(behind, gone),
}
