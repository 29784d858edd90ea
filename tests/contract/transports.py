"""The stand-in for a service that each transport talks to, in the suite that all transports share."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from hashlib import sha1
from tempfile import mkdtemp
from typing import Any, Final

from gateway.backend.choice import open_transport
from gateway.backend.http import HttpTransport
from gateway.backend.sockets import SocketTransport
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.fault.scripted import Listener
from tests.fault.wire import MAX_HEAD, Request, read_request
from tests.waiting import until

Json = dict[str, Any]
OpenTransport = HttpTransport | SocketTransport


class Act(Enum):
    """What the service does with the messages that it gets."""

    ECHO = auto()
    """Answer with the params."""
    WAIT = auto()
    """Answer once ``release`` is set."""
    BREAK_OFF = auto()
    """End the connection instead."""
    GARBAGE = auto()
    """Answer with what is no JSON."""
    LARGE = auto()
    """Answer with two mebibytes."""
    REFUSE = auto()
    """Refuse the credential, by what the transport has for that."""

    # Of sockets that carry messages both ways:
    CUT = auto()
    """Send most of an answer, and end the connection."""
    SLOW = auto()
    """Send an answer in small pieces."""
    GLUED = auto()
    """Send several answers in one piece, the last one first."""
    FOREIGN = auto()
    """Send answers to nobody before each answer."""
    FLOOD = auto()
    """Tell and ask a hundred things before each answer."""
    UNFINISHED = auto()
    """Send ``size`` bytes of a message that never ends."""


class Served(Listener):
    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        super().__init__()
        self._serve = serve

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer)


class ServedAtPath(Served):
    """The same at a Unix socket."""

    path = ""

    async def open(self) -> None:
        self._closed = False
        self.path = self.path or f"{mkdtemp()}/socket"
        self._server = await asyncio.start_unix_server(self._connected, self.path, limit=MAX_HEAD)


class Stand(ABC):
    """A service over one transport. ``messages`` are those that it got."""

    refuses = True
    """Whether the transport has a refusal of its own, besides errors of JSON-RPC."""

    def __init__(self) -> None:
        self.act = Act.ECHO
        self.release = asyncio.Event()
        self.messages: list[Json] = []
        self.requests: list[Request] = []
        self.url = ""
        self.result: Callable[[Json], Any] = lambda message: message.get("params")
        self.listener = Served(self.serve)

    @abstractmethod
    async def open(self) -> None:
        """Listen, and set ``url``; after :meth:`close` at the same address."""

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak on one connection, which ends with it."""

    async def close(self) -> None:
        """End all connections, and listen no more."""
        await self.listener.close()

    def transport(self, **backend: Any) -> OpenTransport:
        """Return a transport to it, as the gateway opens one."""
        settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": {"url": self.url, **backend}})
        return open_transport(settings.by_mount[""], TlsFiles(), lambda _: True, digest=False)

    async def got(self, count: int) -> None:
        """Wait for so many messages."""
        await until(lambda: len(self.messages), count.__eq__)

    async def answer_to(self, message: Json) -> bytes | None:
        """Return the bytes to answer with, None for the end of the connection."""
        self.messages.append(message)
        if self.act is Act.WAIT:
            await self.release.wait()
        if self.act is Act.BREAK_OFF:
            return None
        if self.act is Act.GARBAGE:
            return b"{no JSON}"
        result = "x" * 2 * 1024 * 1024 if self.act is Act.LARGE else self.result(message)
        return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()


class HttpStand(Stand):
    """A service over HTTP."""

    async def open(self) -> None:
        await self.listener.open()
        self.url = f"http://127.0.0.1:{self.listener.port}/rpc"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader, 0)) is not None:
            self.requests.append(request)
            if self.act is Act.REFUSE:
                writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                continue
            body = await self.answer_to(json.loads(request.body))
            if body is None:
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


class UnixHttpStand(HttpStand):
    """The same over a Unix socket."""

    async def open(self) -> None:
        if not isinstance(self.listener, ServedAtPath):
            self.listener = ServedAtPath(self.serve)
        await self.listener.open()
        self.url = f"unix+http:{self.listener.path}:/rpc"


class SocketStand(Stand):
    """A service that may say what it likes, when it likes. ``said`` is what it was answered."""

    refuses = False
    size = 0

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Json] = []
        self._glued: list[bytes] = []
        self._speaking = asyncio.Lock()

    @abstractmethod
    def wrap(self, body: bytes) -> bytes:
        """Return a message as it is sent."""

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        """Answer a message in its own time."""
        if "method" not in message:
            self.said.append(message)
            return
        body = await self.answer_to(message)
        if body is None:
            writer.transport.abort()
        elif not writer.is_closing():
            async with self._speaking:
                await self._say(body, writer)

    async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        sent = self.wrap(body)
        if self.act is Act.CUT:
            writer.write(sent[:-3])
            writer.close()
        elif self.act is Act.SLOW:
            for at in range(0, len(sent), 7):
                writer.write(sent[at : at + 7])
                await asyncio.sleep(0)
        elif self.act is Act.GLUED:
            self._glued.insert(0, sent)
            asyncio.get_running_loop().call_later(0.01, self._say_glued, writer)
        elif self.act is Act.FOREIGN:
            foreign = (
                b'{"jsonrpc":"2.0","id":%s,"result":"nobody\'s"}' % id for id in (b'"c0"', b"7", b"null", b"1.5")
            )
            writer.write(b"".join(map(self.wrap, (*foreign, b'{"jsonrpc":"2.0"}'))) + sent)
        elif self.act is Act.FLOOD:
            told = self.wrap(b'{"jsonrpc":"2.0","method":"told","params":[1]}') * 100
            asked = [b'{"jsonrpc":"2.0","id":1,"method":"%s","params":[2]}' % name for name in (b"echo", b"what")]
            writer.write(told + b"".join(map(self.wrap, asked)) + sent)
        else:
            writer.write(sent)

    def _say_glued(self, writer: asyncio.StreamWriter) -> None:
        glued, self._glued = self._glued, []
        if not writer.is_closing():
            writer.write(b"".join(glued))


TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class WebSocketStand(SocketStand):
    """A service over WebSocket (RFC 6455), its frames written here, so that they can be wrong."""

    refuses = True

    async def open(self) -> None:
        await self.listener.open()
        self.url = f"ws://127.0.0.1:{self.listener.port}/rpc"
        self.pongs: list[bytes] = []

    def accepts(self, request: Request) -> bool:
        """Return whether a handshake opens a WebSocket."""
        return self.act is not Act.REFUSE

    def wrap(self, body: bytes) -> bytes:
        return frame(body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader, 0)
        if request is None:
            return
        self.requests.append(request)
        if not self.accepts(request):
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            return
        accept = base64.b64encode(sha1(f"{request.headers['Sec-WebSocket-Key']}{_GUID}".encode()).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        writer.write(b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        tasks: set[asyncio.Task[None]] = set()
        try:
            while (kind_and_content := await read_frame(reader))[0] != CLOSE:
                kind, content = kind_and_content
                if kind == PONG:
                    self.pongs.append(content)
                if kind == TEXT:
                    tasks.add(asyncio.create_task(self.take(json.loads(content), writer)))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        if self.act is Act.UNFINISHED:
            piece = b"x" * 1024 * 1024
            for number in range(self.size // len(piece)):
                writer.write(frame(piece, 0 if number else TEXT, final=False))
                await writer.drain()
        else:
            await super()._say(body, writer)


_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(content: bytes, kind: int = TEXT, *, final: bool = True) -> bytes:
    """A frame as servers send it, without a mask (RFC 6455 §5.2)."""
    size = len(content)
    if size < 126:
        length = bytes([size])
    else:
        length = struct.pack("!BH", 126, size) if size < 2**16 else struct.pack("!BQ", 127, size)
    return bytes([(0x80 if final else 0) | kind]) + length + content


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The kind and the content of a client's frame."""
    kind, size = await reader.readexactly(2)
    size &= 0x7F
    if size > 125:
        width = 2 if size == 126 else 8
        size = int.from_bytes(await reader.readexactly(width))
    mask = await reader.readexactly(4)
    content = await reader.readexactly(size)
    return kind & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))


SOCKETS: Final[dict[str, Callable[[], SocketStand]]] = {"websocket": WebSocketStand}
STANDS: Final[dict[str, Callable[[], Stand]]] = {"http": HttpStand, "unix+http": UnixHttpStand, **SOCKETS}
