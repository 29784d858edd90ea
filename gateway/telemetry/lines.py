"""Write lines of text to a file or a pipe in a thread, so that nobody waits for a disk or a reader:
the log, and the audit."""

import os
import re
import select
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from gateway.text import API_KEY

MAX_BYTES: Final = 4 * 1024**2
"""Bytes of the buffer, some 8,000 lines."""
_EACH: Final = 256
"""Bytes that Python takes for each line beside its text."""
CLOSE_TIMEOUT: Final = 0.5
"""Seconds that :meth:`Lines.close` waits for the last lines."""
_RETRY: Final = 1.0
_KEY: Final = re.compile(API_KEY.pattern.encode())
PIPE_BUF: Final = 4096
"""Bytes that Linux writes to a pipe at once or not at all, pipe(7): no other process writes in between."""
_BATCH: Final = 0.05
"""Seconds for which lines gather before they are written. Each time that the thread wakes, the event loop waits for the
interpreter's lock, so that it wakes 20 times a second at most."""


class Lines:
    """Write lines to ``descriptor`` in a thread: code that logs never waits, and never sees a failure such as a full
    disk or a reader that is gone. A failed write is tried again, after ``retry`` seconds. Lines beyond a buffer of
    ``most`` bytes are lost; ``lost_line`` returns the line that says how many, once lines can be written again. Where
    other processes write there too, ``shares`` keeps lines of up to :data:`PIPE_BUF` bytes whole, and writes once there
    is room. The thread calls ``prepare`` before a write, which fails where that raises
    :class:`OSError`, and ``failed`` with why one failed."""

    def __init__(
        self,
        descriptor: int,
        lost_line: Callable[[int], str],
        most: int = MAX_BYTES,
        retry: float = _RETRY,
        shares: bool = False,
        prepare: Callable[[], None] = lambda: None,
        failed: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        self.lost_line = lost_line
        self._descriptor = descriptor
        self._most = most
        self._retry = retry
        self.shares = shares
        self._prepare = prepare
        self._failed = failed
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        # Both are reentrant: a finalizer may run, and log, while its own thread is in put().
        self._lock = threading.RLock()
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._waiting: OrderedDict[int, tuple[bytes, Future[None] | None]] = OrderedDict()
        self._size = self._last = 0
        self._cut = 0  # the line whose beginning is written, and the rest is not
        self._lost = self.lost = 0
        self._is_closing = False
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str | bytes) -> bool:
        """Put a line into the buffer. The thread writes it soon. Return False where the line is lost."""
        raw = _masked(line if isinstance(line, bytes) else line.encode("utf-8", "backslashreplace"))
        with self._lock:
            if self._size + _cost(raw) > self._most:
                self._lost += 1
                self.lost += 1
                return False
            self._add(raw, None)
        return True

    def put_at_once(self, line: bytes) -> Future[None]:
        """Put a line into the buffer, to be written now. Return what is done once it is written, or has the
        :class:`OSError` why not. A line that failed, or was cancelled, is not written later."""
        written: Future[None] = Future()
        line = _masked(line)
        with self._lock:
            if self._size + _cost(line) > self._most:
                written.set_exception(OSError(f"{self._size} bytes wait to be written"))
                return written
            number = self._add(line, written)
        written.add_done_callback(lambda _: self._drop(number))
        self._hurry.set()
        return written

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Write what is buffered, for at most ``timeout`` seconds. What is left then is lost. Return whether the thread
        has ended: it may still wait for the descriptor."""
        self._is_closing = True
        self._hurry.set()
        self._wakeups.put(None)
        self._thread.join(timeout)
        with self._lock:
            self.lost += sum(written is None for _, written in self._waiting.values())
            self._waiting.clear()
        return not self._thread.is_alive()

    def _add(self, raw: bytes, written: Future[None] | None) -> int:
        if not self._waiting:
            self._wakeups.put(None)
        self._last += 1
        self._waiting[self._last] = raw + b"\n", written
        self._size += _cost(raw)
        return self._last

    def _drop(self, number: int) -> Future[None] | None:
        """Forget a line, which is written or given up. Return what waits for it."""
        with self._lock:
            if number not in self._waiting:
                return None
            raw, written = self._waiting.pop(number)
            self._size -= len(raw) + _EACH
        return written

    def _run(self) -> None:
        closing = False
        while not closing:
            self._wakeups.get()
            self._hurry.wait(_BATCH)
            self._hurry.clear()
            closing = self._is_closing
            self._write()

    def _write(self) -> None:
        """Write all that waits. After a failure, it is tried again soon, and at once for what is put at once."""
        while self._waiting:
            last = self._is_closing
            try:
                self._prepare()
                self._write_some()
            except BlockingIOError:
                if last:
                    return
            except OSError as error:
                self._give_up(error)
                if last:
                    return
                self._hurry.wait(self._retry)
                self._hurry.clear()

    def _write_some(self) -> None:
        """Write what may be written at once. Raise :class:`OSError` where that fails, or there is no room."""
        if self.shares and not self._room.poll(self._retry * 1000):
            raise BlockingIOError
        with self._lock:
            head, lines = self._next_lines()
        if not (raw := b"".join((head, *lines.values()))):
            return
        left = os.write(self._descriptor, raw[:PIPE_BUF] if self.shares else raw) - len(head)
        with self._lock:
            self._cut = 0
            for number, raw in lines.items():
                if left < len(raw):
                    self._keep_rest(number, left)
                    break
                left -= len(raw)
                if (written := self._drop(number)) is not None:
                    with suppress(InvalidStateError):  # it was given up meanwhile
                        written.set_result(None)
            lost, self._lost = self._lost, 0
        if lost:
            line = self.lost_line(lost).encode()
            with self._lock:
                self._add(line, None)

    def _next_lines(self) -> tuple[bytes, dict[int, bytes]]:
        """Return what ends a line that was cut and given up, and the lines to write: of a long one, a part."""
        head = b"" if self._cut in (0, next(iter(self._waiting), 0)) else b"\n"
        lines: dict[int, bytes] = {}
        room = (PIPE_BUF if self.shares else self._most) - len(head)
        for number, (raw, _) in self._waiting.items():
            if lines and len(raw) > room:
                break
            lines[number] = raw
            room -= len(raw)
        return head, lines

    def _keep_rest(self, number: int, size: int) -> None:
        """Keep what is left of a line of which ``size`` bytes are written. Of one that is given up, the next line ends
        what is there."""
        if not size:
            return
        self._cut = number
        if number in self._waiting:
            raw, written = self._waiting[number]
            self._waiting[number] = raw[size:], written
            self._size -= size

    def _give_up(self, error: OSError) -> None:
        with self._lock:
            for number, (_, written) in list(self._waiting.items()):
                if written is not None:
                    self._drop(number)
                    with suppress(InvalidStateError):
                        written.set_exception(error)
        self._failed(error)


def _masked(raw: bytes) -> bytes:
    """Return a line without the API keys in it, wherever a client put them."""
    return _KEY.sub(b"jmg_***", raw) if b"jmg_" in raw else raw


def _cost(raw: bytes) -> int:
    """Return what a line, without its end, takes of the buffer."""
    return len(raw) + 1 + _EACH
