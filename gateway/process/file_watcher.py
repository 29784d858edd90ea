"""Find which files changed since the last look, however that was done."""

import stat
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from gateway.concurrency.background import Problem, time_after
from gateway.config.service_files import digest_of

INTERVAL: Final = 0.25
"""Seconds from one look to the next. inotify does not work on every file system, and misses how Kubernetes changes a
mounted file, by swapping a symbolic link in the path."""
_STILL: Final = 0.5
"""Seconds after which a file that changes in place is no longer being written. One that was replaced is whole."""
_LONGEST: Final = 1.25
"""Seconds after which a file that never is still is read all the same: what it takes away may not wait for ever."""
_SLOW: Final = 2.0
"""Seconds of stillness for the configuration, which is never read before: half of it may be valid, and have half of the
services."""

_Status: TypeAlias = tuple[int, ...] | None

log = structlog.get_logger()


@dataclass(slots=True)
class _FileState:
    """A file as it was at the last check that found it; ``missed`` counts those since. ``first`` and ``since`` are when
    its status first and last changed, None once its content is known; ``in_place``: the file was not replaced, and may
    still be written."""

    status: _Status
    digest: bytes | None
    first: float | None = None
    since: float | None = None
    in_place: bool = False
    missed: int = 0

    def take(self, status: tuple[int, ...], now: float) -> None:
        self.in_place = self.status is not None and self.status[:2] == status[:2]
        self.status, self.since = status, now
        self.first = now if self.first is None else self.first

    def is_due(self, now: float, *, is_new: bool, is_slow: bool) -> bool:
        """Return whether to read the file. ``is_new``: its status changed since the last check."""
        if self.first is None or self.since is None:
            return False
        still = 0.0 if not self.in_place else _SLOW if is_slow else _STILL
        has_settled = not is_new and now - self.since >= still
        return has_settled or (not is_slow and now - self.first >= _LONGEST)


class FileWatcher:
    """Hold the state of files, and find those that changed since the last check. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._states: dict[Path, _FileState] = {}
        self._forgotten: set[Path] = set()
        self._is_distrusted = False

    def add_new(self, files: Iterable[Path]) -> bool:
        """Record the state of the files that are not watched yet. Return whether there are any."""
        new = [file for file in files if file not in self._states]
        for file in new:
            status = _status_of(file)
            self._states[file] = _FileState(status, None if status is None else digest_of(file))
        return bool(new)

    def changed(self, files: Collection[Path], slow: Collection[Path] = ()) -> list[Path]:
        """Return those of ``files`` whose content changed, and watch no others from now on: a replaced file once two
        checks in a row find the same status, one that changed in place after :data:`_STILL`, one that never is still
        after :data:`_LONGEST`, a removed one once it is back, a new one not. For those in ``slow`` see :data:`_SLOW`.
        """
        now = self._clock()
        self.add_new(files)
        self._states = {file: self._states[file] for file in files}
        while self._forgotten:
            if (forgotten := self._states.get(self._forgotten.pop())) is not None:
                forgotten.digest, forgotten.first, forgotten.since, forgotten.in_place = None, now, now, True
        is_distrusted, self._is_distrusted = self._is_distrusted, False
        changed = []
        for file, state in self._states.items():
            status = _status_of(file)
            state.missed = 0 if status else state.missed + 1
            if status is None:
                continue
            is_new = status != state.status
            if is_new:
                state.take(status, now)
            if is_distrusted and state.since is not None:
                state.digest = None
            if state.is_due(now, is_new=is_new, is_slow=file in slow) and (digest := digest_of(file)) is not None:
                state.first = state.since = None
                if digest != state.digest:
                    state.digest = digest
                    changed.append(file)
        return changed

    def distrust(self) -> None:
        """Take the files that are being written now for changed once they are still: a reload has just read them, and
        may have half of what they had before and have again."""
        self._is_distrusted = True

    def is_writing(self, files: Iterable[Path]) -> bool:
        """Return whether the last check found one of the files changing in place: it may have half of its content."""
        states = filter(None, map(self._states.get, files))
        return any(state.in_place and state.since is not None for state in states)

    def forget(self, file: Path) -> None:
        """Take whatever a file has from now on for a change, also what it had before. Any thread may say so."""
        self._forgotten.add(file)

    def gone(self) -> list[Path]:
        """Return the files that were there, and that the last two checks did not find: one may be in replacement."""
        return [file for file, state in self._states.items() if state.status and state.missed > 1]


def warn_of_gone(file: Path, knobs: Collection[str]) -> Problem:
    """Log that a file is gone, and return that as a problem."""
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
