"""A running gateway and its surroundings: signals, and the memory that stays for good."""

from __future__ import annotations

import asyncio
import gc
from typing import Final

import structlog

from gateway.config import ConfigSource
from gateway.reloading import Reloads
from gateway.server import Server
from gateway.settings import Settings
from gateway.signals import call_on_hangup, stop_on_signal

_GC_THRESHOLDS: Final = (10_000, 20, 50)

log = structlog.get_logger()


async def serve(settings: Settings, source: ConfigSource) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once. SIGHUP reads the configuration, from
    ``source``, and the listing anew; so does a change of a file, as far as the file goes. Raises what
    :meth:`Server.start` raises."""
    server = Server(settings)
    stop = asyncio.Event()
    reloads = Reloads(server, source)
    stop_on_signal(stop)
    call_on_hangup(reloads.ask)
    await server.start()
    reloads.start()
    settling = asyncio.create_task(_settle(server))
    try:
        await stop.wait()
        log.info("stopping", reason="signal")
    finally:
        settling.cancel()
        await server.stop()
    log.info("stopped")


async def _settle(server: Server) -> None:
    """Spare the collector what stays for good: it would go through all of it every few seconds, and hold up calls for
    tens of milliseconds each time."""
    await server.wait_until_listed()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
