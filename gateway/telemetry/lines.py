"""Write log lines through a bounded buffer, and a thread that empties it into a file descriptor.

Code that logs never waits and never sees a failure, such as a full disk, a reader that is gone, or a pipe without a
reader. A failed write is tried again. Lines beyond the buffer are lost and counted, and a line reports the count once
lines can be written again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

MAX_BYTES: Final = 4 * 1024**2
"""Bytes of the buffer, some 20,000 lines. The thread may hold as much again."""
CLOSE_TIMEOUT: Final = 0.5
"""Seconds that :meth:`Lines.close` waits for the last lines."""
_RETRY: Final = 1.0
PIPE_BUF: Final = 4096
"""Bytes that Linux writes to a pipe at once or not at all, pipe(7): no other process writes in between."""
_BATCH: Final = 0.05
"""Seconds for which lines gather before they are written. Each time that the thread wakes, the event loop waits for the
interpreter's lock, so that it wakes 20 times a second at most."""


class Lines:
    """Write lines to ``descriptor``. ``lost_line`` returns the line that reports how many were lost. ``most`` is the
    size of the buffer in bytes, ``retry`` the seconds between two attempts to write. Where other processes write there
    too, ``shares`` keeps lines of up to :data:`PIPE_BUF` bytes whole."""

    def __init__(
        self,
        descriptor: int,
        lost_line: Callable[[int], str],
        most: int = MAX_BYTES,
        retry: float = _RETRY,
        shares: bool = False,
    ) -> None:
        self.lost_line = lost_line
        self._descriptor = descriptor
        self._most = most
        self._retry = retry
        self._shares = shares
        # Both are reentrant: a finalizer may run, and log, while its own thread is in put().
        self._lock = threading.RLock()
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[bytes] = []
        self._size = 0
        self._lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str | bytes) -> None:
        """Put a line into the buffer. The thread writes it soon."""
        raw = line if isinstance(line, bytes) else line.encode("utf-8", "backslashreplace")
        with self._lock:
            size = len(raw) + 1
            if self._size + size > self._most:
                self._lost += 1
                return
            self._size += size
            if not self._waiting:
                self._wakeups.put(None)
            self._waiting.append(raw)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Write what is buffered, for at most ``timeout`` seconds."""
        self._closing.set()
        self._wakeups.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        closing = False
        while not closing:
            self._wakeups.get()
            closing = self._closing.wait(_BATCH)
            self._write(self._take())

    def _take(self) -> bytes:
        with self._lock:
            lines, lost = self._waiting, self._lost
            self._waiting, self._size, self._lost = [], 0, 0
        if lost:
            lines.append(self.lost_line(lost).encode())
        return b"\n".join((*lines, b""))

    def _write(self, raw: bytes) -> None:
        rest = memoryview(raw)
        last = False
        while rest:
            part = rest[: _whole_lines(bytes(rest[:PIPE_BUF]))] if self._shares and len(rest) > PIPE_BUF else rest
            try:
                rest = rest[os.write(self._descriptor, part) :]
            except OSError:
                if last:
                    return
                last = self._closing.wait(self._retry)


def _whole_lines(raw: bytes) -> int:
    """Return how many bytes the whole lines at the beginning have. All, where not even the first one is whole."""
    return raw.rfind(b"\n") + 1 or len(raw)
