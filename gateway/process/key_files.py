"""Apply what key files take away, whatever else is faulty or hangs: a revoked key never waits for what gives rights."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog

from gateway.concurrency.background import Problem
from gateway.concurrency.threads import read_apart
from gateway.config.key_file import KeyFileGone, is_gone, standing_keys
from gateway.config.service_files import KEYS, key_file_of
from gateway.config.source import ConfigError
from gateway.process.file_watcher import INTERVAL, FileWatcher, warn_of_gone
from gateway.process.server import Server
from gateway.service.resource import Resource
from gateway.settings.auth import ApiKey

GONE: Final = 60.0
"""Seconds after which the keys of a file that is gone, or empty, are revoked: until then it may be in replacement."""
_PATIENCE: Final = 5.0
"""Seconds that a file may take to be read: one that takes longer counts as gone since it was asked for."""
_WAIT: Final = 1.0
"""Seconds for which a reload waits for looks at key files: one may hang."""

log = structlog.get_logger()


class _KeyFile:
    """Hold one file: its look under way, since when it is gone, and what ``/status`` says of that."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self.watcher = FileWatcher(clock)
        self.asked_at = 0.0
        self.look: asyncio.Task[None] | None = None
        self.gone_since: float | None = None
        self.problem: Problem | None = None
        self.is_revoked = False

    @property
    def is_asked(self) -> bool:
        """Return whether a look is under way. On a file system that hangs it may be so for ever."""
        return self.look is not None and not self.look.done()

    def read(self, *, always: bool) -> Mapping[str, Iterable[ApiKey]] | None:
        """Return the keys that stand in the file, None where it did not change. Raises :class:`KeyFileGone`."""
        if self.watcher.add_new([self.path]):
            self.watcher.forget(self.path)  # it may have changed since it was read
        has_changed = bool(self.watcher.changed([self.path]))
        if is_gone(self.path):
            raise KeyFileGone
        is_back = self.gone_since is not None
        return standing_keys(self.path) if always or has_changed or is_back else None


class KeyFiles:
    """Take away from the keys of a server's services and groups what their files no longer give. Each file is looked at
    by itself, and without the server's lock: neither a reload nor another file may hold that up. ``clock`` is monotonic
    seconds; ``lessened`` gets a file that took something: a reload gives back what it, once it is whole, has after all.
    """

    def __init__(
        self, server: Server, lessened: Callable[[Path], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._lessened = lessened
        self._clock = clock
        self._states: dict[Path, _KeyFile] = {}

    @property
    def problems(self) -> Collection[Problem]:
        """Return what ``/status`` says of the files that are gone."""
        return [state.problem for state in self._states.values() if state.problem is not None]

    def files(self) -> dict[Path, list[Resource]]:
        """Return the key files that are in force, each with its services and groups."""
        files: dict[Path, list[Resource]] = {}
        for one in self._server.resources.values():
            if (file := key_file_of(one.settings)) is not None:
                files.setdefault(file, []).append(one)
        return files

    async def take_away(self) -> None:
        """Take away what the files do not give now: a reload was refused, or has read them before they changed."""
        await self.look(always=True)

    async def look(self, *, always: bool = False) -> None:
        """Take away what files that changed, or else all, do not give any more. Note which are gone, and revoke the
        keys of those that are for :data:`GONE`. A file that hangs is waited for in the background."""
        files = self.files()
        self._states = states = {file: self._states.get(file) or _KeyFile(file, self._clock) for file in files}
        await asyncio.gather(*(self._ask(state, always=always) for state in states.values()))
        for file, state in states.items():
            self._note_gone(state, [one.settings.knob(KEYS) for one in files[file]])

    async def _ask(self, state: _KeyFile, *, always: bool) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT):
                while always and state.look is not None and state.is_asked:
                    await asyncio.wait((state.look,))  # it began before what is asked for now
        if not state.is_asked:
            state.asked_at = self._clock()
            state.look = asyncio.create_task(self._look_at(state, always=always))
        look = state.look  # a reload may ask for the next one meanwhile
        if look is not None and (await asyncio.wait((look,), timeout=_WAIT if always else INTERVAL))[0]:
            look.result()

    async def _look_at(self, state: _KeyFile, *, always: bool) -> None:
        try:
            standing = await read_apart(state.read, always=always)
        except KeyFileGone:
            if state.gone_since is None:
                state.gone_since = state.asked_at
            if state.is_revoked:
                self._lessen(state, {})  # a reload may have read the file just before it went
            return
        was_revoked, state.gone_since, state.problem, state.is_revoked = state.is_revoked, None, None, False
        if standing is not None and (taken := self._lessen(state, standing)):
            knob = self._knobs(state)
            log.warning("a key file took keys or rights away", knob=knob, file=str(state.path), keys=taken)
        if was_revoked:
            self._lessened(state.path)

    def _note_gone(self, state: _KeyFile, knobs: Collection[str]) -> None:
        """Tell that a file is gone, or hangs, and revoke its keys after :data:`GONE`. At the first look it may be in
        replacement."""
        now = self._clock()
        is_hanging = state.is_asked and now - state.asked_at >= _PATIENCE
        if is_hanging and state.gone_since is None:
            state.gone_since = state.asked_at
        if state.gone_since is None or (not is_hanging and state.asked_at - state.gone_since < INTERVAL):
            return
        if state.problem is None:
            state.problem = warn_of_gone(state.path, knobs)
        if now - state.gone_since >= GONE and not state.is_revoked:
            state.is_revoked = True
            taken, knob = self._lessen(state, {}), self._knobs(state)
            state.problem.set(f"{knob}: {state.path} is gone, empty, or cannot be read: its keys are revoked")
            log.error("a key file is gone: its keys are revoked", knob=knob, file=str(state.path), keys=taken)

    def _lessen(self, state: _KeyFile, standing: Mapping[str, Iterable[ApiKey]]) -> int:
        """Return of how many keys something was taken, at the service or group where it was most."""
        taken = max((one.lessen_keys(standing) for one in self.files().get(state.path, ())), default=0)
        if taken:
            self._lessened(state.path)
        return taken

    def _knobs(self, state: _KeyFile) -> str:
        return ", ".join(one.settings.knob(KEYS) for one in self.files().get(state.path, ()))


async def apply_key_files(server: Server) -> None:
    """Watch the key files alone, where nobody watches the other files: for one that changed, apply the settings in
    force again."""
    refusal, watcher = Problem(), FileWatcher()
    keys = KeyFiles(server, watcher.forget)

    async def take() -> None:
        while True:
            await keys.look()
            server.problems, server.reloads.missing = (refusal, *keys.problems), len(keys.problems)
            await asyncio.sleep(INTERVAL)

    async def give() -> None:
        while True:
            files = keys.files()
            is_new = watcher.add_new(files)  # it may have changed since it was read
            if await read_apart(watcher.changed, files) or is_new:
                try:
                    await server.reload()
                    refusal.set("")
                except ConfigError as error:
                    log.error("configuration refused, the old one stays", faults=list(error.faults))
                    refusal.set(f"the configuration was refused, the old one stays: {'; '.join(error.faults)}")
                watcher.distrust()
                await keys.take_away()
            await asyncio.sleep(INTERVAL)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(take())
        tasks.create_task(give())
