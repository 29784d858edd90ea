"""Run a gateway as a process: signals, reloads, and the garbage collector's thresholds."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from gateway.concurrency.background import Problem, time_after
from gateway.concurrency.collector import COLLECTOR
from gateway.config.layers import SERVER_FILES
from gateway.config.service_files import LISTED
from gateway.config.source import ConfigError, ConfigSource, differing, files_of, needs_restart, origins_of_values
from gateway.process.file_watcher import INTERVAL, FileWatcher, warn_of_gone
from gateway.process.key_files import KeyFiles
from gateway.process.link import Inheritance, ParentLink
from gateway.process.server import Server
from gateway.process.signals import call_on_hangup, notify, stop_on_signal
from gateway.settings import Settings
from gateway.telemetry import audit

_GC_THRESHOLDS: Final = (10_000, 20, 50)  # Python 3.11 has (700, 10, 10)
_SWITCH: Final = 0.001
"""Seconds that the event loop waits for a thread that computes, in each turn. Python's 5 ms are long for a call."""
_CONFIGURATION: Final = "the configuration"
_MOST_LOOKS: Final = 4
"""Looks for which a reload waits at most while a key file is being written."""

log = structlog.get_logger()


async def serve(
    settings: Settings,
    source: ConfigSource,
    started: Callable[[int], None] = lambda _: None,
    inheritance: Inheritance | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once. SIGHUP reloads ``source`` and refreshes the
    listings; a change of a file does what depends on the file. ``started`` gets the open public port. A worker has an
    ``inheritance``, and does what its parent says. Raises what :meth:`Server.start` raises."""
    server = Server(settings, sockets=None if inheritance is None else inheritance.sockets)
    reloads = Reloads(server, source)
    stop = stop_on_signal()
    sys.setswitchinterval(_SWITCH)
    call_on_hangup(reloads.ask)
    await server.start()
    reloads.start()
    started(server.port)
    notify("READY=1")
    tuning = asyncio.create_task(_tune_gc(server))
    link = None if inheritance is None else ParentLink(inheritance, server, stop.set, reloads.ask)
    talking = None if link is None else asyncio.create_task(link.talk())
    try:
        await stop.wait()
        log.info("stopping", reason="signal")
        notify("STOPPING=1")
    finally:
        tuning.cancel()
        await server.stop()
        if talking is not None:
            talking.cancel()
    log.info("stopped")


async def _tune_gc(server: Server) -> None:
    await server.wait_until_listed()
    COLLECTOR.tune(_GC_THRESHOLDS)


class Reloads:
    """Reload a server when the configuration of ``source``, or a file that it names, changes from now on. Where it is
    refused, what key files take away counts all the same."""

    def __init__(self, server: Server, source: ConfigSource) -> None:
        self._server = server
        self._source = source
        self._reload_wanted = asyncio.Event()
        self._listing_wanted = asyncio.Event()
        self._refused: Settings | None = None
        self._touched: set[str] = set()  # knobs whose files changed since the last reload
        self._refusal = Problem()
        self._gone: dict[Path, Problem] = {}
        self._waiting: list[asyncio.Future[Sequence[str]]] = []
        self._server.read_again = self.read_again
        self._server.problems = (self._refusal,)
        self._watcher = FileWatcher()
        self._watcher.add_new(self._files())
        self._keys = KeyFiles(server, self._watcher)
        self._report()

    def start(self) -> None:
        """Start watching, in the background of the server, which must be started."""
        self._server.background.start("reload", self._watch)
        self._server.background.start("listing on demand", self._list_on_demand)

    def ask(self) -> None:
        """Reload and refresh the listings soon, changed or not. Open the audit's file again, which may be rotated."""
        if (auditor := audit.active) is not None:
            auditor.reopen()
        self._reload_wanted.set()
        self._listing_wanted.set()

    async def read_again(self) -> Sequence[str]:
        """Reload now, changed or not. Return the faults of a configuration that is refused."""
        over: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(over)
        self._reload_wanted.set()
        return await over

    async def _watch(self) -> None:
        files, waited = self._files(), 0
        while True:
            await self._next_look(waited)
            for file in await asyncio.to_thread(self._watcher.changed, files):
                self._handle_change(file, files[file])
            # Half a key file would revoke the keys of the other half.
            waited = waited + 1 if self._reload_wanted.is_set() and self._watcher.is_writing(self._keys.files()) else 0
            if self._reload_wanted.is_set() and not 0 < waited <= _MOST_LOOKS:
                await self._reload_now()
                files, waited = self._files(), 0
            await self._keys.look()
            lost = [file for file in self._watcher.gone() if file in files and file not in self._keys.files()]
            self._gone = {file: self._gone.get(file) or warn_of_gone(file, files[file]) for file in lost}
            missing = (*self._gone.values(), *self._keys.problems)
            self._server.problems, self._server.reloads.missing = (self._refusal, *missing), len(missing)

    async def _next_look(self, waited: int) -> None:
        """Wait until files are looked at again: at once where a reload is asked for, unless it waits for a file."""
        if waited:
            await asyncio.sleep(INTERVAL)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL):
                await self._reload_wanted.wait()

    async def _reload_now(self) -> None:
        """Reload, and tell systemd and those who wait for it."""
        self._reload_wanted.clear()
        notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        waiting, self._waiting = self._waiting, []
        try:
            is_good = await self._reload()
        except Exception:
            await self._keys.take_away()
            raise
        if not is_good:
            await self._keys.take_away()
        for one in waiting:
            if not one.done():
                one.set_result(self._server.configuration["refused"])
        notify("READY=1")

    async def _list_on_demand(self) -> None:
        while True:
            await self._listing_wanted.wait()
            self._listing_wanted.clear()
            await self._server.refresh_listings()

    async def _reload(self) -> bool:
        """Reload. Return whether what was read is in force."""
        self._refused = None
        try:
            self._refused = settings = await asyncio.to_thread(self._load)
            before = self._server.settings
            await self._server.reload(settings)
        except ConfigError as error:
            log.error("configuration refused, the old one stays", faults=list(error.faults))
            self._server.configuration["refused"] = list(error.faults)
            self._server.reloads.count(is_good=False)
            self._refusal.set(f"the configuration was refused, the old one stays: {'; '.join(error.faults)}")
            return False
        self._refused = None
        self._report()
        self._server.reloads.count(is_good=True)
        waiting = needs_restart(before, settings)
        for knob in waiting:
            log.warning("knob keeps its old value until a restart", knob=knob)
        if waiting:
            self._refusal.set(f"kept as before until a restart: {', '.join(waiting)}")
        touched, self._touched = sorted(self._touched), set()
        changed = dict.fromkeys((*differing(before, self._server.settings), *touched))
        log.info("configuration reloaded", changed=list(changed))
        return True

    def _report(self) -> None:
        """Tell the server that what was read last is in force."""
        files = sorted(map(str, self._source.files))
        self._server.configuration = {"files": files, "since": time_after(), "refused": []}
        with contextlib.suppress(OSError):  # the file went as it was read
            self._server.values = origins_of_values(self._source.layers)
        self._refusal.set("")

    def _load(self) -> Settings:
        """Return the settings, read until the watcher knows all files. Raises :class:`ConfigError`."""
        while True:
            try:
                settings = self._source.load_settings()
            except ConfigError:
                if not self._watcher.add_new(self._source.files):
                    raise
            else:
                if not self._watcher.add_new(self._source.files):
                    self._watcher.add_new(file for _, file in files_of(settings))
                    return settings

    def _files(self) -> dict[Path, set[str]]:
        """Return the files to watch with their knobs, also of refused settings, which a change may make valid."""
        files: dict[Path, set[str]] = {file: {_CONFIGURATION} for file in self._source.files}
        for knob, file in files_of(self._server.settings):
            files.setdefault(file, set()).add(knob)
        for knob, file in files_of(self._refused) if self._refused else ():
            if knob not in SERVER_FILES:
                files.setdefault(file, set()).add(knob)
        return files

    def _handle_change(self, file: Path, knobs: set[str]) -> None:
        for knob in sorted(knobs):
            if knob in SERVER_FILES:
                log.warning("a file changed that is read at the start: restart to use it", knob=knob, file=str(file))
            elif knob.endswith(LISTED):
                self._listing_wanted.set()
            else:
                if knob != _CONFIGURATION:
                    self._touched.add(knob)
                self._reload_wanted.set()
