"""The stand-in for a service that each transport talks to, in the suite that all transports share."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final

from gateway.backend.choice import open_transport
from gateway.backend.transport import OpenTransport
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.fault.scripted import Listener
from tests.fault.wire import read_request
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


STANDS: Final[dict[str, Callable[[], Stand]]] = {"http": HttpStand}
