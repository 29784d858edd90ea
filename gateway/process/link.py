"""Hand a worker what its parent holds for it, and let the two talk for as long as both run.

:data:`VARIABLE` names the descriptors that a worker inherits: a channel, one for what it is lent, listening sockets. On
the channel the parent sends words, a line for each. A signal would end a worker without handlers, or be the second
after a service manager's. The worker sends lines of JSON: status, changed metrics, the answers to those words.
On the second one the parent lends sockets of workers that do not answer: a message has all beside the worker's own.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from gateway import jsonrpc
from gateway.process.server import Server
from gateway.telemetry.merging import Changes

VARIABLE: Final = "JSONRPC_MCP_GATEWAY_WORKER"
MAX_LINE: Final = 16 * 1024**2
MAX_LENT: Final = 250
"""Sockets of one message; the kernel passes 253."""
_INTERVAL: Final = 0.5  # seconds from one report of a worker to the next

log = structlog.get_logger()


class NotAWorker(Exception):
    """Raised where :data:`VARIABLE` is set, but not by the parent of this process."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Hold what worker ``number``, counted from 1, has of its parent. ``sockets`` are those of the public port."""

    number: int
    channel: socket.socket
    lent: socket.socket
    sockets: tuple[socket.socket, ...]

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.channel.fileno(), self.lent.fileno(), *(one.fileno() for one in self.sockets))

    def as_variable(self, parent: int) -> str:
        """Return the value of :data:`VARIABLE`. ``parent`` is the parent's process id."""
        return ":".join(map(str, (parent, self.number, *self.descriptors)))


def inherit(environ: MutableMapping[str, str]) -> Inheritance | None:
    """Take :data:`VARIABLE` out of the environment; return what it names, or None. Raises :class:`NotAWorker`."""
    value = environ.pop(VARIABLE, None)
    if value is None:
        return None
    try:
        parent, number, *descriptors = map(int, value.split(":"))
        if parent != os.getppid():
            raise ValueError("another parent")
        channel, lent, *sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    except (ValueError, OSError):
        raise NotAWorker(f"{VARIABLE} is set, but this process has no such parent: unset it") from None
    for one in (channel, lent, *sockets):
        one.set_inheritable(False)
        one.setblocking(False)
    return Inheritance(number, channel, lent, tuple(sockets))


class ParentLink:
    """Report on ``server`` to the parent twice a second, and do what it says. ``stop`` is also called where the parent
    is gone."""

    def __init__(
        self, inheritance: Inheritance, server: Server, stop: Callable[[], object], reload: Callable[[], object]
    ) -> None:
        self._inheritance = inheritance
        self._server = server
        self._changes = Changes()
        self._acts: dict[bytes, Callable[[], object]] = {
            b"stop\n": stop,
            b"reload\n": reload,
            b"refresh\n": partial(self._begin, "refresh", server.refresh_listings),
            b"read\n": partial(self._begin, "read", self._read_again),
            b"details\n": partial(self._begin, "details", server.details),
        }
        self._answering: set[asyncio.Task[None]] = set()

    async def talk(self) -> None:
        """Talk to the parent until it is gone. Cancel it when the worker has ended its work."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._inheritance.channel)
        reporting = asyncio.create_task(self._report())
        asyncio.get_running_loop().add_reader(self._inheritance.lent, self._take_lent)
        try:
            with suppress(ConnectionError):
                async for word in reader:
                    if word in self._acts:
                        self._acts[word]()
            log.error("the parent of this worker is gone")
            self._acts[b"stop\n"]()
        finally:
            for task in (reporting, *self._answering):
                task.cancel()
            for message in self._messages():  # what the last requests counted
                self._writer.write(jsonrpc.encode(message) + b"\n")
            self._writer.close()
            asyncio.get_running_loop().remove_reader(self._inheritance.lent)

    async def _report(self) -> None:
        while True:
            for message in self._messages():
                await self._send(message)
            await asyncio.sleep(_INTERVAL)

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Yield the status, and the metrics that changed."""
        yield self._server.status()
        for entries in self._changes.lines(self._server.figures()):
            yield {"metrics": entries}

    def _take_lent(self) -> None:
        lent = self._inheritance.lent
        message, descriptors, _, _ = socket.recv_fds(lent, 1, MAX_LENT, socket.MSG_CMSG_CLOEXEC)
        if message:
            self._server.borrow([socket.socket(fileno=descriptor) for descriptor in descriptors])
        else:
            asyncio.get_running_loop().remove_reader(lent)  # the parent is gone

    async def _read_again(self) -> str:
        """Return why the configuration that is read now is refused, "" where it is not."""
        return "; ".join(await self._server.read_again()) if self._server.read_again else ""

    def _begin(self, word: str, act: Callable[[], Awaitable[Any]]) -> None:
        async def answer() -> None:
            said = {"answer": word, "value": await act()}
            too_long = len(jsonrpc.encode(said)) >= MAX_LINE  # its parent would hear nothing more of this worker
            await self._send({**said, "value": None} if too_long else said)

        task = asyncio.create_task(answer())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _send(self, message: dict[str, Any]) -> None:
        with suppress(ConnectionError):  # the end of what it says tells
            self._writer.write(jsonrpc.encode(message) + b"\n")
            await self._writer.drain()
