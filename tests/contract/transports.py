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
from typing import Any, Final

from gateway.backend.choice import open_transport
from gateway.backend.transport import OpenTransport
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.fault.scripted import Listener
from tests.fault.wire import Request, read_request
from tests.waiting import until

Json = dict[str, Any]


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


class Served(Listener):
    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        super().__init__()
        self._serve = serve

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer)


class Stand(ABC):
    """A service over one transport. ``messages`` are those that it got."""

    refuses = True
    """Whether the transport has a refusal of its own, besides errors of JSON-RPC."""

    def __init__(self) -> None:
        self.act = Act.ECHO
        self.release = asyncio.Event()
        self.messages: list[Json] = []
        self.url = ""
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
        result = "x" * 2 * 1024 * 1024 if self.act is Act.LARGE else message.get("params")
        return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()


class HttpStand(Stand):
    """A service over HTTP."""

    async def open(self) -> None:
        await self.listener.open()
        self.url = f"http://127.0.0.1:{self.listener.port}/rpc"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader, 0)) is not None:
            if self.act is Act.REFUSE:
                writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                continue
            body = await self.answer_to(json.loads(request.body))
            if body is None:
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class WebSocketStand(Stand):
    """A service over WebSocket (RFC 6455), its frames written here, so that they can be wrong."""

    async def open(self) -> None:
        await self.listener.open()
        self.url = f"ws://127.0.0.1:{self.listener.port}/rpc"
        self.handshakes: list[Request] = []
        self.pongs: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader, 0)
        if request is None:
            return
        self.handshakes.append(request)
        if self.act is Act.REFUSE:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            return
        accept = base64.b64encode(sha1(f"{request.headers['Sec-WebSocket-Key']}{_GUID}".encode()).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        writer.write(b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        await self.talk(reader, writer)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each message in its own time, until the connection ends."""
        tasks: set[asyncio.Task[None]] = set()
        try:
            while (kind_and_content := await read_frame(reader))[0] != CLOSE:
                kind, content = kind_and_content
                if kind == PONG:
                    self.pongs.append(content)
                if kind == TEXT:
                    tasks.add(asyncio.create_task(self._answer(json.loads(content), writer)))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, message: Json, writer: asyncio.StreamWriter) -> None:
        body = await self.answer_to(message)
        if body is None:
            writer.transport.abort()
        elif not writer.is_closing():
            writer.write(frame(body))


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


STANDS: Final[dict[str, Callable[[], Stand]]] = {"http": HttpStand, "websocket": WebSocketStand}
