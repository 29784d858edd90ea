"""Lines of the log on their way out: a bounded buffer, and a thread that writes it to a file descriptor.

Who logs never waits and never sees a failure: not of a full disk, not of a reader that is gone, not of a pipe that
nobody reads. What could not be written is tried again. What the buffer could not hold is counted, and a line says so as
soon as lines can be written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

MAX_BYTES: Final = 4 * 1024**2
"""Size of the buffer, some 20,000 lines. The thread may hold as much again."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that :meth:`Lines.close` waits for the last lines."""
_RETRY: Final = 1.0
_BATCH: Final = 0.005
"""Seconds for which lines gather before they are written: a write for each would wake the thread as often."""


class Lines:
    """A log that is written to ``descriptor``. ``lost_line`` makes the line that says how many were lost; ``most`` is
    the size of the buffer in bytes, ``retry`` the seconds between two attempts to write."""

    def __init__(
        self, descriptor: int, lost_line: Callable[[int], str], most: int = MAX_BYTES, retry: float = _RETRY
    ) -> None:
        self.lost_line = lost_line
        self._descriptor = descriptor
        self._most = most
        self._retry = retry
        # Reentrant, and a queue that is: a finalizer may run, and log, while its own thread is in put().
        self._lock = threading.RLock()
        self._news: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[bytes] = []
        self._size = 0
        self._lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Have a line written soon."""
        raw = f"{line}\n".encode("utf-8", "backslashreplace")
        with self._lock:
            if self._size + len(raw) > self._most:
                self._lost += 1
                return
            first = not self._waiting
            self._waiting.append(raw)
            self._size += len(raw)
        if first:
            self._news.put(None)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Write what there is, for at most ``timeout`` seconds."""
        self._closing.set()
        self._news.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        closing = False
        while not closing:
            self._news.get()
            closing = self._closing.wait(_BATCH)
            self._write(self._take())

    def _take(self) -> bytes:
        with self._lock:
            lines, lost = self._waiting, self._lost
            self._waiting, self._size, self._lost = [], 0, 0
        if lost:
            lines.append(f"{self.lost_line(lost)}\n".encode())
        return b"".join(lines)

    def _write(self, raw: bytes) -> None:
        rest = memoryview(raw)
        last = False
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                if last:
                    return
                last = self._closing.wait(self._retry)
