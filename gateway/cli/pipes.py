"""Read and write lines on the standard streams of this process, without blocking the loop.

Each direction has a thread: a pipe cannot be read or written without blocking on every system, and the non-blocking
mode of a pipe is shared with whoever else holds it. The threads are daemons: a blocked one never delays the end.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
_CHUNK: Final = 65536


def claim_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output that nothing else in this process uses.

    From then on, descriptor 0 is empty and descriptor 1 is standard error: what a library prints must not get between
    the messages. Raises :class:`OSError` where one of the streams is closed.
    """
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


class LineSplitter:
    """Cut a stream of bytes into lines of at most ``longest`` bytes. A longer one is dropped, whatever its length."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._dropping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield the lines that end in this chunk, without their ends; None stands for one that was too long."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            yield self._take()
        self._add(rest)

    def close(self) -> Iterator[bytes | None]:
        """Yield the last line, where it has no end."""
        if self._rest or self._dropping:
            yield self._take()

    def _add(self, part: bytes) -> None:
        if self._dropping or len(self._rest) + len(part) > self._longest:
            self._dropping = True
            self._rest.clear()
        else:
            self._rest += part

    def _take(self) -> bytes | None:
        line = None if self._dropping else bytes(self._rest)
        self._dropping = False
        self._rest.clear()
        return line


class _Thread:
    """Run functions in a thread, one after another, and hand what they return to the loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[[], Result]) -> Result:
        """Return what the function returns, and raise the :class:`OSError` that it raises."""
        done: asyncio.Future[Result] = self._loop.create_future()
        self._work.put((function, done))
        return await done

    def end(self) -> None:
        """Let the thread end after the work that it has."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            function, done = work
            error, result = None, None
            try:
                result = function()
            except OSError as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(_settle, done, result, error)
            except RuntimeError:  # the loop is closed
                return


def _settle(done: asyncio.Future[Any], result: Any, error: OSError | None) -> None:
    if done.done():  # who waited for it is cancelled
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


class LineReader:
    """Read lines of at most ``longest`` bytes from a descriptor. It reads no further while nobody takes them."""

    def __init__(self, descriptor: int, longest: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(longest)

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield each line until the stream ends; None stands for one that was too long."""
        thread = _Thread("stdin")
        try:
            while chunk := await thread.call(self._read):
                for line in self._splitter.feed(chunk):
                    yield line
        finally:
            thread.end()
        for line in self._splitter.close():
            yield line

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, _CHUNK)
            except BlockingIOError:  # the mode of who started this
                select.select([self._descriptor], [], [])
            except ConnectionError:  # a socket whose peer is gone
                return b""


class LineWriter:
    """Write lines to a descriptor, each as a whole. ``broken`` is set when nobody reads them any more."""

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
    """Tell whether the loop can notice that the reader of a pipe or socket has gone."""
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
