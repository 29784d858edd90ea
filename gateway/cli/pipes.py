"""Read and write lines on the standard streams of this process, without blocking the loop.

Each direction has a thread, since the non-blocking mode of a pipe is shared with other processes that hold it, and not
every system has one. The threads are daemons: a blocked one never delays the end.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
_CHUNK: Final = 65536


def claim_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output that nothing else in this process uses. From then on, descriptor
    1 is standard error: prints of a library must not get between the messages. Raises :class:`OSError` where one of the
    streams is closed."""
    if sys.__stdin__ is None or sys.__stdout__ is None:  # its number may be that of another file by now
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return incoming, outgoing


class _Thread:
    """Run functions in a thread, one after another."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Return what the function will return, or the :class:`OSError` that it will raise."""
        done: Future[Result] = Future()
        self._work.put((function, done))
        return asyncio.wrap_future(done)

    def end(self) -> None:
        """Let the thread end after the work that it has."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            function, done = work
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(function())
            except OSError as error:
                done.set_exception(error)


class LineReader:
    """Read lines of at most ``longest`` bytes from a descriptor, and no further than they are consumed."""

    def __init__(self, descriptor: int, longest: int) -> None:
        self._descriptor = descriptor
        self._longest = longest

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield each line until the stream ends, without its end; None stands for one that was too long."""
        thread, line = _Thread("stdin"), bytearray()
        is_long = False  # the rest of such a line is dropped, whatever its length
        try:
            while chunk := await thread.call(self._read):
                *ends, begun = chunk.split(b"\n")
                for end in ends:
                    is_long = is_long or len(line) + len(end) > self._longest
                    yield None if is_long else bytes(line + end)
                    line.clear()
                    is_long = False
                is_long = is_long or len(line) + len(begun) > self._longest
                line += b"" if is_long else begun
        finally:
            thread.end()
        if line or is_long:
            yield None if is_long else bytes(line)

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, _CHUNK)
            except BlockingIOError:  # the mode of who started this
                select.select([self._descriptor], [], [])
            except ConnectionError:  # a socket whose peer is gone
                return b""


class LineWriter:
    """Write lines to a descriptor, each as a whole. ``broken`` is set once the reader has gone."""

    def __init__(self, descriptor: int) -> None:
        self.broken = asyncio.Event()
        self._descriptor = descriptor
        self._thread = _Thread("stdout")
        self._watching = _tells_of_its_reader(descriptor)
        if self._watching:
            blocks = os.get_blocking(descriptor)
            asyncio.get_running_loop().add_reader(descriptor, self._lose)
            os.set_blocking(descriptor, blocks)  # uvloop changes the mode

    async def write(self, line: bytes) -> None:
        """Write a line and its end; return once that is done. Raises :class:`BrokenPipeError`."""
        if self.broken.is_set():
            raise BrokenPipeError
        try:
            await self._thread.call(lambda: _write_all(self._descriptor, line + b"\n"))
        except OSError:
            self._lose()
            raise BrokenPipeError from None

    def close(self) -> None:
        """Stop watching the descriptor, and end the thread. The descriptor stays open."""
        self._unwatch()
        self._thread.end()

    def _lose(self) -> None:
        self._unwatch()
        self.broken.set()

    def _unwatch(self) -> None:
        if self._watching:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._watching = False


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # the mode of who started this
            select.select([], [descriptor], [])


def _tells_of_its_reader(descriptor: int) -> bool:
    """Return whether the loop can notice that the reader of a pipe or socket has gone."""
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
