"""A running gateway and its surroundings: signals, and a configuration file that changes."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog
from watchfiles import awatch

from gateway.app import Gateway
from gateway.config import ConfigError
from gateway.settings import Settings

_GC_THRESHOLDS: Final = (10_000, 20, 50)

log = structlog.get_logger()


async def serve(settings: Settings, load: Callable[[], Settings], file: Path | None) -> None:
    """Serve until SIGTERM or SIGINT. SIGHUP and a changed file reload, be it the configuration or its pins.

    ``load`` reads the configuration anew and raises :class:`ConfigError`. Raises what :meth:`Gateway.start` raises.
    """
    gateway = Gateway(settings)
    stop = asyncio.Event()
    reload = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    await gateway.start()
    gateway.background.start("reload", lambda: _reload_whenever(reload, gateway, load))
    settling = asyncio.create_task(_settle(gateway))
    watched = [Path(name) for name in (file, settings.catalog.pin) if name is not None]
    if watched:
        gateway.background.start("watch of files", lambda: _watch(watched, reload))
    try:
        await stop.wait()
        log.info("stopping", reason="signal")
    finally:
        settling.cancel()
        await gateway.stop()
    log.info("stopped")


async def _settle(gateway: Gateway) -> None:
    """Spare the collector what stays for good: it would go through all of it every few seconds, and hold up calls for
    tens of milliseconds each time."""
    await gateway.listed()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def _reload_whenever(reload: asyncio.Event, gateway: Gateway, load: Callable[[], Settings]) -> None:
    while True:
        await reload.wait()
        reload.clear()
        try:
            change = await gateway.apply(await asyncio.to_thread(load))
        except ConfigError as error:
            log.error("configuration refused, the old one stays", faults=list(error.faults))
            continue
        for knob in change.needs_restart:
            log.warning("knob keeps its old value until a restart", knob=knob)
        log.info("configuration reloaded", changed=list(change.changed))


async def _watch(files: Iterable[Path], reload: asyncio.Event) -> None:
    """Set ``reload`` when a file's content changes, also by a swapped symbolic link as Kubernetes does it."""
    contents = {file: _content(file) for file in files}
    folders = {file.parent for file in contents}
    async for _ in awatch(*folders, recursive=False, debounce=200):
        for file, content in contents.items():
            changed = _content(file)
            if changed is not None and changed != content:
                contents[file] = changed
                reload.set()


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
