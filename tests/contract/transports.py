"""The stand-in for a service that each transport talks to, in the suite that all transports share."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum, auto
from hashlib import sha1
from tempfile import mkdtemp
from typing import Any, Final

from gateway.backend.choice import open_transport
from gateway.backend.http import HttpTransport
from gateway.backend.sockets import SocketTransport
from gateway.backend.unfinished import UnfinishedMessages
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.contract.frames import CLOSE, GUID, PONG, TEXT, frame, read_frame
from tests.fault.scripted import Listener
from tests.fault.wire import MAX_HEAD, Request, read_request
from tests.waiting import until

Json = dict[str, Any]
OpenTransport = HttpTransport | SocketTransport


def anything_unfinished() -> UnfinishedMessages:
    """Room for what nobody counts."""
    return UnfinishedMessages(lambda _: True, 2**40)


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
    """Answer with ``large`` bytes."""
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
    def __init__(
        self,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls)
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

    large = 2 * 1024 * 1024
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
        return open_transport(settings.by_mount[""], TlsFiles(), lambda _: True, anything_unfinished(), digest=False)

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
        result = "x" * self.large if self.act is Act.LARGE else self.result(message)
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
            if request.verb != "POST":
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
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

    async def take_all(self, messages: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
        tasks: set[asyncio.Task[None]] = set()
        try:
            async for message in messages:
                tasks.add(asyncio.create_task(self.take(json.loads(message), writer)))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
        accept = base64.b64encode(sha1(f"{request.headers['Sec-WebSocket-Key']}{GUID}".encode()).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        writer.write(b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        await self.take_all(self._texts(reader), writer)

    async def _texts(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while (kind_and_content := await read_frame(reader))[0] != CLOSE:
            kind, content = kind_and_content
            if kind == PONG:
                self.pongs.append(content)
            if kind == TEXT:
                yield content

    async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        if self.act is Act.UNFINISHED:
            piece = b"x" * 1024 * 1024
            for number in range(self.size // len(piece)):
                writer.write(frame(piece, 0 if number else TEXT, final=False))
                await writer.drain()
        else:
            await super()._say(body, writer)


class StreamStand(SocketStand):
    """A service on a TCP socket, which tells messages apart as ``framing`` says."""

    framing = "none"

    async def open(self) -> None:
        await self.listener.open()
        self.url = f"tcp://127.0.0.1:{self.listener.port}"

    def wrap(self, body: bytes) -> bytes:
        if self.framing == "content-length":
            kind = b"Content-Type: application/vscode-jsonrpc; charset=utf-8"
            return b"Content-Length: %d\r\n%s\r\n\r\n%s" % (len(body), kind, body)
        return body + {"newline": b"\r\n", "etx": b"\x03"}.get(self.framing, b"")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.take_all(self._messages(reader), writer)

    async def _messages(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        if self.framing == "content-length":
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                yield await reader.readexactly(int(head.partition(b":")[2]))
        if self.framing in ("newline", "etx"):
            while True:
                yield (await reader.readuntil(b"\n" if self.framing == "newline" else b"\x03"))[:-1]
        text = ""
        while data := await reader.read(65536):
            text = (text + data.decode()).lstrip()
            while text:
                try:
                    _, end = json.JSONDecoder().raw_decode(text)
                except ValueError:
                    break
                yield text[:end].encode()
                text = text[end:].lstrip()

    async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        if self.act is Act.UNFINISHED:
            writer.write(b'{"x":"')
            for _ in range(self.size // _MIB):
                writer.write(b"x" * _MIB)
                await writer.drain()
        else:
            await super()._say(body, writer)


class UnixStand(StreamStand):
    """The same on a Unix socket, with a message in each line."""

    framing = "newline"

    async def open(self) -> None:
        if not isinstance(self.listener, ServedAtPath):
            self.listener = ServedAtPath(self.serve)
        await self.listener.open()
        self.url = f"unix:{self.listener.path}"


_MIB: Final = 1024 * 1024
SOCKETS: Final[dict[str, Callable[[], SocketStand]]] = {
    "websocket": WebSocketStand, "tcp": StreamStand, "unix": UnixStand,
}  # fmt: skip
STANDS: Final[dict[str, Callable[[], Stand]]] = {"http": HttpStand, "unix+http": UnixHttpStand, **SOCKETS}
