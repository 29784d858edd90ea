"""Read and write lines on the standard streams of this process, without blocking the loop.

Each direction has a thread: a pipe cannot be read or written without blocking on every system, and the non-blocking
mode of a pipe is shared with whoever else holds it. The threads are daemons: a blocked one never delays the end.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from queue import SimpleQueue
from typing import Final

_CHUNK: Final = 65536


def claim_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output that nothing else in this process uses.

    From then on, descriptor 0 is empty and descriptor 1 is standard error: what a library prints must not get between
    the messages. Raises :class:`OSError` where one of the streams is closed.
    """
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


class LineReader:
    """Read lines of at most ``longest`` bytes from a descriptor. It reads no further while nobody takes them."""

    def __init__(self, descriptor: int, longest: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(longest)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield each line until the stream ends; None stands for one that was too long."""
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), name="stdin", daemon=True).start()
        while chunk := await self._chunks.get():
            for line in self._splitter.feed(chunk):
                yield line
        for line in self._splitter.close():
            yield line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        chunk = b"."
        while chunk:
            try:
                chunk = os.read(self._descriptor, _CHUNK)
            except OSError:  # a connection that was reset has ended, too
                chunk = b""
            taken = threading.Event()
            try:
                loop.call_soon_threadsafe(self._put, loop, chunk, taken)
            except RuntimeError:  # the loop is closed
                return
            taken.wait()

    def _put(self, loop: asyncio.AbstractEventLoop, chunk: bytes, taken: threading.Event) -> None:
        putting = loop.create_task(self._chunks.put(chunk))
        putting.add_done_callback(lambda _: taken.set())


class LineWriter:
    """Write lines to a descriptor, each as a whole. ``broken`` is set when nobody reads them any more."""

    def __init__(self, descriptor: int) -> None:
        self.broken = asyncio.Event()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._watching = _tells_of_its_reader(descriptor)
        if self._watching:
            self._loop.add_reader(descriptor, self._lose)
        threading.Thread(target=self._write, name="stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line and its end; return once that is done. Raises :class:`BrokenPipeError`."""
        if self.broken.is_set():
            raise BrokenPipeError
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line + b"\n", written))
        await written
        if self.broken.is_set():
            raise BrokenPipeError

    def close(self) -> None:
        """Stop watching the descriptor."""
        if self._watching:
            self._loop.remove_reader(self._descriptor)
            self._watching = False

    def _lose(self) -> None:
        self.close()
        self.broken.set()

    def _write(self) -> None:
        while True:
            line, written = self._lines.get()
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
                done = _resolve
            except OSError:
                done = self._fail
            try:
                self._loop.call_soon_threadsafe(done, written)
            except RuntimeError:  # the loop is closed
                return

    def _fail(self, written: asyncio.Future[None]) -> None:
        self._lose()
        _resolve(written)


def _resolve(written: asyncio.Future[None]) -> None:
    if not written.done():  # who waited for it may be cancelled
        written.set_result(None)


def _tells_of_its_reader(descriptor: int) -> bool:
    """Tell whether the loop can notice that the reader of a pipe or socket has gone."""
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
