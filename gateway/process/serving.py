"""Run a gateway as a process: signals, reloads, and the garbage collector's thresholds."""

import asyncio
import contextlib
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from gateway.concurrency.background import Problem, time_after
from gateway.concurrency.collector import COLLECTOR
from gateway.config.layers import SERVER_FILES
from gateway.config.service_files import LISTED, digest_of
from gateway.config.source import ConfigError, ConfigSource, differing, files_of, needs_restart, origins_of_values
from gateway.process.link import Inheritance, ParentLink
from gateway.process.server import Server
from gateway.process.signals import call_on_hangup, notify, stop_on_signal
from gateway.settings import Settings
from gateway.telemetry import audit

_GC_THRESHOLDS: Final = (10_000, 20, 50)  # Python 3.11 has (700, 10, 10)
_SWITCH: Final = 0.001
"""Seconds that the event loop waits for a thread that computes, in each turn. Python's 5 ms are long for a call."""
_INTERVAL: Final = 0.25
_CONFIGURATION: Final = "the configuration"

_Status: TypeAlias = tuple[int, ...] | None

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
    """Reload a server when the configuration of ``source``, or a file that it names, changes from now on.

    Each file is checked a few times a second: inotify does not work on every file system, and misses how Kubernetes
    changes a mounted file, by swapping a symbolic link in the path.
    """

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
        files = self._files()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL):
                    await self._reload_wanted.wait()
            if self._reload_wanted.is_set():
                self._reload_wanted.clear()
                notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
                waiting, self._waiting = self._waiting, []
                await self._reload()
                files = self._files()
                for one in waiting:
                    if not one.done():
                        one.set_result(self._server.configuration["refused"])
                notify("READY=1")
            for file in await asyncio.to_thread(self._watcher.changed, files):
                self._handle_change(file, files[file])
            gone = {file: self._gone.get(file) or _warn(file, files[file]) for file in self._watcher.gone()}
            self._gone, self._server.problems = gone, (self._refusal, *gone.values())
            self._server.reloads.missing = len(gone)

    async def _list_on_demand(self) -> None:
        while True:
            await self._listing_wanted.wait()
            self._listing_wanted.clear()
            await self._server.refresh_listings()

    async def _reload(self) -> None:
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
            return
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


@dataclass(slots=True)
class _FileState:
    """A file as it was at the last check that found it; ``missed`` counts those since. ``unsettled``: being written."""

    status: _Status
    digest: bytes | None
    unsettled: bool = False
    missed: int = 0


class FileWatcher:
    """Hold the state of files, and find those that changed since the last check."""

    def __init__(self) -> None:
        self._states: dict[Path, _FileState] = {}

    def add_new(self, files: Iterable[Path]) -> bool:
        """Record the state of the files that are not watched yet. Return whether there are any."""
        new = [file for file in files if file not in self._states]
        for file in new:
            status = _status_of(file)
            self._states[file] = _FileState(status, None if status is None else digest_of(file))
        return bool(new)

    def changed(self, files: Collection[Path]) -> list[Path]:
        """Return those of ``files`` whose content changed, and watch no others from now on: a file being written once
        two checks in a row find the same status, a removed one once it is back, a new one not."""
        self.add_new(files)
        self._states = {file: self._states[file] for file in files}
        changed = []
        for file, state in self._states.items():
            status = _status_of(file)
            state.missed = 0 if status else state.missed + 1
            if status is not None and status != state.status:
                state.status, state.unsettled = status, True
            elif status is not None and state.unsettled:
                digest = digest_of(file)
                state.unsettled = digest is None
                if digest is not None and digest != state.digest:
                    state.digest = digest
                    changed.append(file)
        return changed

    def gone(self) -> list[Path]:
        """Return the files that were there, and that the last two checks did not find: one may be in replacement."""
        return [file for file, state in self._states.items() if state.status and state.missed > 1]


def _warn(file: Path, knobs: set[str]) -> Problem:
    knob = ", ".join(sorted(knobs))
    log.warning("a watched file is gone: put it back, or change the knob", knob=knob, file=str(file))
    return Problem(f"{knob}: {file} is gone", time_after())


def _status_of(file: Path) -> _Status:
    """Return what changes with the file, None if it is gone, and for a pipe or a device, which cannot be read again."""
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
