"""Things that somebody's first URL leads to: each is a server of its own, with the answers of the real thing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import WSMsgType, web

from tests.tls import Authority


@dataclass(frozen=True)
class Asked:
    """Hold a request: ``headers`` in lower case, ``message`` as JSON, None where it is none."""

    verb: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Reply:
    """Hold an answer. A body that is no text is sent as JSON."""

    body: Any = ""
    status: int = 200
    type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Answering: TypeAlias = Callable[[Asked], Reply | Awaitable[Reply]]
Talking: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Http:
    """A server that answers so. ``socket`` opens WebSockets for a GET that asks for one. With ``names`` it has TLS, and
    a certificate for them; ``expired`` is that. It lets in ``clients`` of the authority alone, where that is set."""

    answer: Answering
    socket: bool = False
    names: tuple[str, ...] = ()
    expired: bool = False
    clients: bool = False


@dataclass(frozen=True)
class Raw:
    """A server that speaks something else than HTTP."""

    talk: Talking


StandIn: TypeAlias = Http | Raw


@asynccontextmanager
async def standing(stand_in: StandIn, authority: Authority) -> AsyncIterator[int]:
    """Serve on a port of loopback, and return it. ``authority`` signs certificates."""
    if isinstance(stand_in, Raw):
        server = await asyncio.start_server(_until_closed(stand_in.talk), "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
        return
    runner = web.ServerRunner(web.Server(_handler(stand_in)), shutdown_timeout=0.1)
    await runner.setup()
    tls = None
    if stand_in.names:
        clients_of = authority if stand_in.clients else None
        tls = authority.server(*stand_in.names, expired=stand_in.expired, clients_of=clients_of)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _handler(it: Http) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if it.socket and request.headers.get("Upgrade", "").lower() == "websocket":
            opened = web.WebSocketResponse()
            await opened.prepare(request)
            async for message in opened:
                if message.type is not WSMsgType.TEXT:
                    break
            return opened
        headers = {name.lower(): value for name, value in request.headers.items()}
        reply = it.answer(Asked(request.method, request.path, headers, await request.read()))
        if not isinstance(reply, Reply):
            reply = await reply
        body = reply.body if isinstance(reply.body, bytes | str) else json.dumps(reply.body)
        data = body.encode() if isinstance(body, str) else body
        return web.Response(status=reply.status, body=data, headers={"Content-Type": reply.type, **reply.headers})

    return handle


def _until_closed(talk: Talking) -> Talking:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return served
