"""Run a gateway as a process: signals, reloads, and the garbage collector's thresholds."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

import structlog

from gateway.concurrency.background import Problem, time_after
from gateway.concurrency.collector import COLLECTOR
from gateway.concurrency.threads import read_apart
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
_READING: Final = 30.0
"""Seconds that the configuration and its files may take to be read and applied."""
_PATIENCE: Final = 5.0
"""Seconds after which a look at the files hangs."""

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
    """Reload a server when the configuration of ``source``, or a file that it names, changes from now on. What key
    files take away counts at once, also where the rest is refused, or hangs."""

    def __init__(self, server: Server, source: ConfigSource) -> None:
        self._server = server
        self._source = source
        self._reload_wanted = asyncio.Event()
        self._is_asked = False  # by a person or a program
        self._listing_wanted = asyncio.Event()
        self._refused: Settings | None = None
        self._touched: set[str] = set()  # knobs whose files changed since the last reload
        self._refusal = Problem()
        self._hanging = Problem()
        self._gone: dict[Path, Problem] = {}
        self._waiting: list[asyncio.Future[Sequence[str]]] = []
        self._server.read_again = self.read_again
        self._server.problems = (self._refusal,)
        self._watcher = FileWatcher()
        self._watcher.add_new(self._files())
        self._keys = KeyFiles(server, lambda file: self._watcher.forget(file))
        self._report()

    def start(self) -> None:
        """Start watching, in the background of the server, which must be started."""
        self._server.background.start("reload", self._watch)
        self._server.background.start("key files", self._watch_keys)
        self._server.background.start("listing on demand", self._list_on_demand)

    def ask(self) -> None:
        """Reload and refresh the listings soon, changed or not. Open the audit's file again, which may be rotated."""
        if (auditor := audit.active) is not None:
            auditor.reopen()
        self._is_asked = True
        self._reload_wanted.set()
        self._listing_wanted.set()

    async def read_again(self) -> Sequence[str]:
        """Reload now, changed or not. Return the faults of a configuration that is refused."""
        over: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(over)
        self._is_asked = True
        self._reload_wanted.set()
        return await over

    async def _watch(self) -> None:
        files, waited = self._files(), 0
        while True:
            await self._next_look(waited)
            for file in await self._changed(files):
                self._handle_change(file, files[file])
            waited = waited + 1 if self._reload_wanted.is_set() and self._is_half(waited) else 0
            if self._reload_wanted.is_set() and not waited:
                await self._reload_now()
                files = self._files()
            lost = [file for file in self._watcher.gone() if file in files and file not in self._keys.files()]
            self._gone = {file: self._gone.get(file) or warn_of_gone(file, files[file]) for file in lost}
            self._tell_problems()

    async def _watch_keys(self) -> None:
        while True:
            await self._keys.look()
            self._tell_problems()
            await asyncio.sleep(INTERVAL)

    def _tell_problems(self) -> None:
        missing = (*self._gone.values(), *self._keys.problems)
        self._server.problems, self._server.reloads.missing = (self._refusal, self._hanging, *missing), len(missing)

    async def _changed(self, files: Collection[Path]) -> list[Path]:
        """Return which files changed. Where that hangs while a reload is asked for, there is a new watcher: the reload
        may be for other files."""
        look = asyncio.ensure_future(read_apart(self._watcher.changed, files, self._source.file))
        try:
            while not (await asyncio.wait((look,), timeout=_PATIENCE))[0]:
                self._hanging.set("no change of a file is seen: the file system of one does not answer")
                self._tell_problems()
                if self._reload_wanted.is_set():
                    self._watcher = FileWatcher()  # this look, once it goes on, would take changes for told
                    return []
            self._hanging.set("")
            return look.result()
        finally:
            look.cancel()

    def _is_half(self, waited: int) -> bool:
        """Return whether a reload that has waited for so many looks must wait on. Half a key file would revoke the keys
        of the other half, for which it does not wait long, and half a configuration take away the services of the other
        half. Who asks for a reload knows that the configuration is whole."""
        if not self._is_asked and self._watcher.is_writing(self._source.file):
            return True
        return waited < _MOST_LOOKS and self._watcher.is_writing(self._keys.files())

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
        self._is_asked = False
        notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        waiting, self._waiting = self._waiting, []
        try:
            await self._reload()
        finally:
            # Files may have changed since they were read. What was taken away meanwhile, the reload has given again.
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

    async def _reload(self) -> None:
        self._refused = None
        before = self._server.settings
        try:
            settings = await self._read()
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

    async def _read(self) -> Settings:
        """Return the settings, read and applied. Raises :class:`ConfigError`."""
        try:
            async with asyncio.timeout(_READING) as limit:
                self._refused = settings = await read_apart(self._load)
                await self._server.reload(settings)
        except TimeoutError:
            if not limit.expired():
                raise
            why = f"not read within {_READING:.0f} s: is it a pipe, or does its file system hang?"
            raise ConfigError([f"{file}: {why}" for file in await self._silent_files() or ["its files"]]) from None
        self._watcher.distrust()
        return settings

    async def _silent_files(self) -> list[str]:
        """Return the files that nobody can open now, with their knobs: that waits."""
        files = self._files()
        opening = [asyncio.ensure_future(read_apart(_open, file)) for file in files]
        _, silent = await asyncio.wait(opening, timeout=1.0)
        for one in silent:
            one.cancel()
        named = zip(files.items(), opening, strict=True)
        return [f"{', '.join(knobs)}: {file}" for (file, knobs), one in named if one in silent]

    def _report(self) -> None:
        """Tell the server that what was read last is in force."""
        files = sorted(map(str, self._source.files))
        self._server.configuration = {"files": files, "since": time_after(), "refused": []}
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


def _open(file: Path) -> None:
    with contextlib.suppress(OSError), file.open("rb"):
        pass
