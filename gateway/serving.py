"""Run a gateway as a process: signals, reloads, and the garbage collector's thresholds."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

import structlog

from gateway.config import ConfigSource
from gateway.reloading import Reloads
from gateway.server import Server
from gateway.settings import Settings
from gateway.signals import call_on_hangup, stop_on_signal
from gateway.workers.link import Inheritance, ParentLink, State

# Python 3.11 has (700, 10, 10).
_GC_THRESHOLDS: Final = (10_000, 20, 50)

log = structlog.get_logger()


async def serve(
    settings: Settings,
    source: ConfigSource,
    started: Callable[[int], None] = lambda _: None,
    inheritance: Inheritance | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once. SIGHUP reloads the configuration from
    ``source`` and refreshes the listings; a change of a file does so for what depends on the file. ``started`` is
    called with the public port once it is open. A worker has an ``inheritance``, and also does what its parent says.
    Raises what :meth:`Server.start` raises."""
    server = Server(settings, sockets=None if inheritance is None else inheritance.sockets)
    stop = asyncio.Event()
    reloads = Reloads(server, source)
    stop_on_signal(stop)
    call_on_hangup(reloads.ask)
    await server.start()
    reloads.start()
    started(server.port)
    tuning = asyncio.create_task(_tune_gc(server))
    talking = asyncio.create_task(_talk(inheritance, server, stop, reloads))
    try:
        await stop.wait()
        log.info("stopping", reason="signal")
    finally:
        tuning.cancel()
        await server.stop()
        talking.cancel()
    log.info("stopped")


async def _talk(inheritance: Inheritance | None, server: Server, stop: asyncio.Event, reloads: Reloads) -> None:
    """Report to the parent, and do what it says, where there is one."""
    if inheritance is not None:

        def state() -> State:
            return State(server.unready(), tuple(server.describe()))

        await ParentLink(inheritance, state, stop.set, reloads.ask, server.list_anew, server.borrow).talk()


async def _tune_gc(server: Server) -> None:
    """Exclude the objects made at start from garbage collection. They stay until the end, and each full collection
    would go through all of them and hold up calls for tens of milliseconds."""
    await server.wait_until_listed()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
