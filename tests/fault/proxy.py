"""A TCP proxy between the gateway and a service, or an issuer, that spoils what passes.

    async with ScriptedBackend() as backend, FaultProxy(backend.port) as proxy, front(proxy.url("/jsonrpc")) as gateway:
        proxy.fault = Latency(0.1)   # from now on, for open connections too
        proxy.fault = SOUND          # and over

It knows nothing of HTTP: bytes pass, or do not. "Requests" are what the gateway sends, "answers" what comes back.
``close`` and ``open`` are those of a service that goes and returns: meanwhile connections are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self, TypeAlias

from tests.fault.scripted import Listener

Passing: TypeAlias = Literal["requests", "answers"]
_LOOPBACK: Final = "127.0.0.1"
_BLOCK: Final = 65536
_TICK: Final = 0.02
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Fault(Protocol):
    """What happens to each block of up to 64 KiB, and to connections that are open when the fault begins."""

    def begin(self, link: Link) -> None:
        """Spoil a connection that is open already."""

    async def carry(self, block: bytes, way: Way) -> None:
        """Send on what has come one way; an empty block is its end."""


@dataclass(frozen=True)
class Sound:
    """No fault."""

    def begin(self, link: Link) -> None:
        pass

    async def carry(self, block: bytes, way: Way) -> None:
        await way.send(block)


SOUND: Final = Sound()


@dataclass(frozen=True)
class Latency(Sound):
    """Each block arrives so many seconds late, both ways."""

    seconds: float

    async def carry(self, block: bytes, way: Way) -> None:
        await asyncio.sleep(self.seconds)
        await way.send(block)


@dataclass(frozen=True)
class Slicing(Sound):
    """So many bytes at a time, both ways, each in a segment of its own."""

    size: int = 1

    async def carry(self, block: bytes, way: Way) -> None:
        for start in range(0, max(1, len(block)), self.size):
            await way.send(block[start : start + self.size])
            await asyncio.sleep(0)


@dataclass(frozen=True)
class Bandwidth(Sound):
    """At most so many bytes in a second, each way of each connection by itself."""

    rate: int

    async def carry(self, block: bytes, way: Way) -> None:
        size = max(1, int(self.rate * _TICK))
        for start in range(0, max(1, len(block)), size):
            await asyncio.sleep(_TICK)
            await way.send(block[start : start + size])


@dataclass(frozen=True)
class Reset(Sound):
    """The connection is reset as the first bytes pass: of a request, which then never arrives, or of an answer, of
    which ``after`` bytes come first."""

    of: Passing
    after: int = 0

    async def carry(self, block: bytes, way: Way) -> None:
        if way.passing != self.of or not block:
            await way.send(block)
            return
        if self.after:
            await way.send(block[: self.after])
        way.link.reset()


@dataclass(frozen=True)
class HalfOpen(Sound):
    """The service loses its end of a connection without a word (RFC 9293 §3.5.1): at once of those that are open, and
    of a new one after its first answer. What is sent over it then is answered with a reset."""

    def begin(self, link: Link) -> None:
        link.forsake()

    async def carry(self, block: bytes, way: Way) -> None:
        await way.send(block)
        if way.passing == "answers":
            way.link.forsake()


@dataclass(frozen=True)
class Blackhole(Sound):
    """Nothing passes and nobody hears of it; with ``of`` one way alone. When it is over, what was held arrives after
    all, since TCP sends it again."""

    of: Passing | None = None

    async def carry(self, block: bytes, way: Way) -> None:
        if self.of in (None, way.passing):
            await way.link.proxy.over(self)
        await way.send(block)


@dataclass(frozen=True)
class Surplus(Sound):
    """Bytes that nobody asked for follow each block of an answer."""

    data: bytes = (
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n{"jsonrpc":"2.0","id":1}'
    )

    async def carry(self, block: bytes, way: Way) -> None:
        await way.send(block + self.data if block and way.passing == "answers" else block)


class Way:
    """One direction of a connection through the proxy."""

    def __init__(self, link: Link, passing: Passing, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        self.link = link
        self.passing = passing
        self._reader = reader
        self._to = to

    async def send(self, block: bytes) -> None:
        """Give bytes to the other side at once, or say that there are no more."""
        if self.link.forsaken:
            return
        if block:
            self._to.write(block)
            await self._to.drain()
        elif self._to.can_write_eof():
            self._to.write_eof()

    async def run(self) -> None:
        """Carry all that comes, to its end."""
        block = b"-"
        while block:
            block = await self._reader.read(_BLOCK)
            if self.link.forsaken and self.passing == "requests":
                self.link.reset()
                return
            await self.link.proxy.fault.carry(block, self)


class Link:
    """One connection through the proxy: ``near`` is the gateway's side, ``far`` the service's. ``forsaken`` once the
    service has lost its end."""

    def __init__(self, proxy: FaultProxy, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.forsaken = False
        self._near = near
        self._far = far

    def forsake(self) -> None:
        """Lose the service's end; the gateway hears nothing of it."""
        self.forsaken = True
        self._far.transport.abort()

    def reset(self) -> None:
        """Cut the connection, with a reset to both sides."""
        _reset(self._near)
        _reset(self._far)


def _reset(writer: asyncio.StreamWriter) -> None:
    if not writer.transport.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


class FaultProxy(Listener):
    """A proxy before a port of this machine. ``links`` are the connections that are open."""

    def __init__(self, upstream: int) -> None:
        super().__init__()
        self.links: set[Link] = set()
        self._upstream = upstream
        self._fault: Fault = SOUND
        self._over = asyncio.Event()

    def url(self, path: str = "") -> str:
        return f"http://{_LOOPBACK}:{self.port}{path}"

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        """Switch: the fault before is over, and this one begins."""
        before, self._over, self._fault = self._over, asyncio.Event(), fault
        before.set()
        for link in self.links:
            fault.begin(link)

    async def over(self, fault: Fault) -> None:
        """Wait until this fault is over."""
        if self._fault is fault:
            await self._over.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, far = await asyncio.open_connection(_LOOPBACK, self._upstream)
        except ConnectionError:  # the service is gone
            _reset(writer)
            return
        link = Link(self, writer, far)
        self.links.add(link)
        ways = (Way(link, "requests", reader, far), Way(link, "answers", answers, writer))
        try:
            async with asyncio.TaskGroup() as both:
                for way in ways:
                    both.create_task(way.run())
        except* OSError:
            link.reset()  # one side has cut it, so the other shall know
        finally:
            self.links.discard(link)
            far.transport.abort()
            with contextlib.suppress(ConnectionError):
                await far.wait_closed()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.fault = SOUND
        await self.close()

    def __repr__(self) -> str:
        return f"<FaultProxy {self.port} -> {self._upstream}, {len(self.links)} open, {self._fault}>"
