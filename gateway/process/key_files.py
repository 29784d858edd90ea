"""Apply what key files take away, whatever else is faulty: a revoked key never waits for what gives rights."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog

from gateway.concurrency.background import Problem
from gateway.config.key_file import KeyFileGone, is_gone, standing_keys
from gateway.config.service_files import KEYS, key_file_of
from gateway.config.source import ConfigError
from gateway.process.file_watcher import INTERVAL, FileWatcher, warn_of_gone
from gateway.process.server import Server
from gateway.service.resource import Resource
from gateway.settings.auth import ApiKey

GONE: Final = 60.0
"""Seconds after which the keys of a file that is gone, or empty, are revoked: until then it may be in replacement."""

log = structlog.get_logger()


class KeyFiles:
    """Take away from the keys of a server's services and groups what their files no longer give. ``clock`` is monotonic
    seconds; ``watcher`` takes a file that is back after its keys were revoked for changed."""

    def __init__(self, server: Server, watcher: FileWatcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._watcher = watcher
        self._clock = clock
        self._gone_since: dict[Path, float] = {}
        self._problems: dict[Path, Problem] = {}
        self._revoked: set[Path] = set()

    @property
    def problems(self) -> Collection[Problem]:
        """Return what ``/status`` says of the files that are gone."""
        return self._problems.values()

    def files(self) -> dict[Path, list[Resource]]:
        """Return the key files that are in force, each with its services and groups."""
        files: dict[Path, list[Resource]] = {}
        for one in self._server.resources.values():
            if (file := key_file_of(one.settings)) is not None:
                files.setdefault(file, []).append(one)
        return files

    async def take_away(self) -> None:
        """Take away what the files do not give any more, where a reload was refused. They give nothing."""
        async with self._server.changing:
            for file, resources in self.files().items():
                try:
                    standing = await asyncio.to_thread(standing_keys, file)
                except KeyFileGone:
                    continue  # look() counts for how long
                if taken := _lessen(resources, standing):
                    knob = _knobs(resources)
                    log.warning("keys were revoked although the rest is refused", knob=knob, file=str(file), keys=taken)

    async def look(self) -> None:
        """Note which files are gone, and revoke the keys of those that are for :data:`GONE`."""
        files, now = self.files(), self._clock()
        lost = await asyncio.to_thread(lambda: {file for file in files if is_gone(file)})
        known = self._gone_since
        self._gone_since = {file: known.get(file, now) for file in lost}
        # At the first look it may be in replacement.
        self._problems = {
            file: self._problems.get(file) or warn_of_gone(file, [one.settings.knob(KEYS) for one in files[file]])
            for file in lost
            if file in known
        }
        self._revoked &= lost
        for file, since in self._gone_since.items():
            if now - since >= GONE and file not in self._revoked:
                await self._revoke(file)

    async def _revoke(self, file: Path) -> None:
        async with self._server.changing:
            resources = self.files().get(file, [])
            taken, knob = _lessen(resources, {}), _knobs(resources)
        self._revoked.add(file)
        self._watcher.forget(file)
        self._problems[file].set(f"{knob}: {file} is gone, or empty: its keys are revoked")
        log.error("a key file is gone: its keys are revoked", knob=knob, file=str(file), keys=taken)

    async def watch(self) -> None:
        """Watch the key files alone, where nobody watches the other files: for one that changed, apply the settings in
        force again."""
        refusal = Problem()
        while True:
            files = self.files()
            is_new = self._watcher.add_new(files)  # it may have changed since it was read
            if await asyncio.to_thread(self._watcher.changed, files) or is_new:
                try:
                    await self._server.reload()
                    refusal.set("")
                except ConfigError as error:
                    log.error("configuration refused, the old one stays", faults=list(error.faults))
                    refusal.set(f"the configuration was refused, the old one stays: {'; '.join(error.faults)}")
                    await self.take_away()
            await self.look()
            self._server.problems, self._server.reloads.missing = (refusal, *self.problems), len(self.problems)
            await asyncio.sleep(INTERVAL)


def _lessen(resources: Iterable[Resource], standing: Mapping[str, Iterable[ApiKey]]) -> int:
    """Return of how many keys something was taken, at the service or group where it was most."""
    return max((one.lessen_keys(standing) for one in resources), default=0)


def _knobs(resources: Iterable[Resource]) -> str:
    return ", ".join(one.settings.knob(KEYS) for one in resources)
