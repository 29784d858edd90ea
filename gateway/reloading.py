"""What changes while the gateway runs: the configuration, and the files that it names.

Each file is looked at a few times a second. The kernel's news would come sooner, but not from every file system, and
not of the symbolic links on the way to a file, by whose swapping Kubernetes changes a mounted one. Which files these
are is asked each time, so that those are watched too that only a reload named.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from gateway.config import ConfigError, ConfigSource, differing, files_of, needs_restart
from gateway.server import Server
from gateway.service_files import LISTED
from gateway.settings import Settings

_INTERVAL: Final = 0.25
_CONFIGURATION: Final = "the configuration"
_AT_START: Final = frozenset({"server.secret_file"})
"""Files that are read when the process starts, and not again."""

_Status: TypeAlias = tuple[int, ...] | None

log = structlog.get_logger()


class Reloads:
    """Keeps a server to its configuration, which ``source`` reads, and to the files that it names. Make it before the
    server starts: what changes from then on is noticed."""

    def __init__(self, server: Server, source: ConfigSource) -> None:
        self._server = server
        self._source = source
        self._reload = asyncio.Event()
        self._list_anew = asyncio.Event()
        self._refused: Settings | None = None
        self._touched: set[str] = set()
        """Knobs whose files changed since the last reload."""
        self._looks = Looks()
        self._looks.learn(self._files())

    def start(self) -> None:
        """Begin, in the background of the server, which must be started."""
        self._server.background.start("reload", self._keep_up)
        self._server.background.start("listing on demand", self._list_whenever)

    def ask(self) -> None:
        """Read the configuration anew and list anew, whether anything changed or not."""
        self._reload.set()
        self._list_anew.set()

    async def _keep_up(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL):
                    await self._reload.wait()
            if self._reload.is_set():
                self._reload.clear()
                await self._read_anew()
            files = self._files()
            for file in await asyncio.to_thread(self._looks.changed, files):
                self._act(file, files[file])

    async def _list_whenever(self) -> None:
        while True:
            await self._list_anew.wait()
            self._list_anew.clear()
            await self._server.list_anew()

    async def _read_anew(self) -> None:
        self._refused = None
        try:
            self._refused = settings = await asyncio.to_thread(self._load)
            before = self._server.settings
            await self._server.reload(settings)
        except ConfigError as error:
            log.error("configuration refused, the old one stays", faults=list(error.faults))
            return
        self._refused = None
        for knob in needs_restart(before, settings):
            log.warning("knob keeps its old value until a restart", knob=knob)
        touched, self._touched = sorted(self._touched), set()
        changed = dict.fromkeys((*differing(before, self._server.settings), *touched))
        log.info("configuration reloaded", changed=list(changed))

    def _load(self) -> Settings:
        """The settings. Whatever names a file for the first time, it is looked at before it is read for good: else a
        change in between would go unnoticed. Raises :class:`ConfigError`."""
        while True:
            fault: ConfigError | None = None
            try:
                settings = self._source.load_settings()
            except ConfigError as error:
                fault = error
            if not self._looks.learn(self._source.files):
                break
        if fault is not None:
            raise fault
        self._looks.learn(file for _, file in files_of(settings))
        return settings

    def _files(self) -> dict[Path, set[str]]:
        """The files to watch, and what names each. What is wrong with refused settings may be such a file."""
        files: dict[Path, set[str]] = {file: {_CONFIGURATION} for file in self._source.files}
        for knob, file in files_of(self._server.settings):
            files.setdefault(file, set()).add(knob)
        for knob, file in files_of(self._refused) if self._refused else ():
            if knob not in _AT_START:
                files.setdefault(file, set()).add(knob)
        return files

    def _act(self, file: Path, knobs: set[str]) -> None:
        for knob in sorted(knobs):
            if knob in _AT_START:
                log.warning("a file changed that is read at the start: restart to use it", knob=knob, file=str(file))
            elif knob.endswith(LISTED):
                self._list_anew.set()
            else:
                if knob != _CONFIGURATION:
                    self._touched.add(knob)
                self._reload.set()


@dataclass(slots=True)
class _Seen:
    """What a file was like. ``unsettled`` while it may still be written to."""

    status: _Status
    digest: bytes | None
    unsettled: bool = False


class Looks:
    """What files were like when they were looked at, and which of them changed since."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def learn(self, files: Iterable[Path]) -> bool:
        """Look at those that nobody looked at before; whether there are any."""
        new = [file for file in files if file not in self._seen]
        for file in new:
            status = _status_of(file)
            self._seen[file] = _Seen(status, None if status is None else _digest_of(file))
        return bool(new)

    def changed(self, files: Collection[Path]) -> list[Path]:
        """Those whose content is another one than before. One that is being written counts once two looks find it
        alike, one that is gone when it is back, and one that nobody looked at before does not count."""
        self.learn(files)
        self._seen = {file: self._seen[file] for file in files}
        changed = []
        for file, seen in self._seen.items():
            status = _status_of(file)
            if status is not None and status != seen.status:
                seen.status, seen.unsettled = status, True
            elif status is not None and seen.unsettled:
                digest = _digest_of(file)
                seen.unsettled = digest is None
                if digest is not None and digest != seen.digest:
                    seen.digest = digest
                    changed.append(file)
        return changed


def _status_of(file: Path) -> _Status:
    """None also for a pipe or a device: to read it again would take what is there for others, or wait for ever."""
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digest_of(file: Path) -> bytes | None:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return None
