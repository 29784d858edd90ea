"""What a group of 12 services with 2,400 tools costs, search off, in this process."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Final, NamedTuple

from gateway.config.source import load_settings
from gateway.mcp.modern import PROJECTOR
from gateway.model import ANONYMOUS, SHARED
from gateway.process.server import Server
from gateway.telemetry import logs
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend
from tests.orders import openrpc
from tests.waiting import until

_SERVICES: Final = 12
_TOOLS: Final = 200
_REPEATS: Final = 5
_KB: Final = 1000
_PREPARED: Final = 2.0
"""Seconds in which the group writes its first pages by itself."""


class Measured(NamedTuple):
    """Milliseconds of the first page, for a client before which there was no other, and some more; kilobytes that the
    group takes beside its services, before the first page is written."""

    pages: list[float]
    kilobytes: float


def milliseconds_of_first_page() -> list[float]:
    return _measured().pages


def kilobytes() -> list[float]:
    return [_measured().kilobytes]


@cache
def _measured() -> Measured:
    before = logs.threshold
    logs.set_level("error")
    try:
        return asyncio.run(_measure())
    finally:
        logs.threshold = before


@asynccontextmanager
async def _serving() -> AsyncIterator[tuple[Server, list[str]]]:
    """A gateway before the services, and its knobs."""
    async with AsyncExitStack() as stack:
        knobs = ["server.port=0", "server.admin_port=0", "auth.mode=off"]
        for number in range(_SERVICES):
            backend = await stack.enter_async_context(ScriptedBackend())
            backend.on("rpc.discover", result(openrpc(_TOOLS)))
            knobs.append(f"services.s{number}.backend={{url: '{backend.url}', listing: {{dialect: openrpc}}}}")
        server = Server(load_settings(None, knobs, environ={}))
        await server.start()
        try:
            await server.wait_until_listed()
            yield server, knobs
        finally:
            await server.stop()


async def _measure() -> Measured:
    group = "groups.all={services: '*', catalog: {search: false}}"
    async with _serving() as (server, knobs):
        gc.collect()
        tracemalloc.start()
        await server.reload(load_settings(None, [*knobs, group], environ={}))
        discovery = server.resources["/all"].discovery
        await until(lambda: discovery.shown_digest(SHARED))
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await asyncio.sleep(_PREPARED)
        return Measured([await _page(server) for _ in range(_REPEATS)], grown / _KB)


async def _page(server: Server) -> float:
    started = time.perf_counter()
    page = await server.resources["/all"].site.operations.list_tools(ANONYMOUS, None, PROJECTOR)
    took = (time.perf_counter() - started) * 1000
    if page.cursor is not None or len(page.tools) < _SERVICES * _TOOLS * 100:
        raise ValueError(f"the page has {len(page.tools)} bytes, and another follows: {page.cursor is not None}")
    return took
