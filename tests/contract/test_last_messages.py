"""What a service on a socket sends right before the end reaches its callers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.backend.choice import open_transport
from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import Outgoing, Reply
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.contract.frames import CLOSE, frame
from tests.contract.transports import Served, SocketStand, StreamStand, WebSocketStand, anything_unfinished
from tests.each import each
from tests.tls import Authority
from tests.waiting import PATIENCE

LARGE = [[1, [2]]] * 100_000


class EndingStream(StreamStand):
    """It ends the connection behind its answer."""

    framing = "newline"

    async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        await super()._say(body, writer)
        writer.close()


class EndingWebSocket(WebSocketStand):
    """It asks, answers and closes in one piece."""

    async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        asked = b'{"jsonrpc":"2.0","id":9,"method":"echo"}'
        writer.write(frame(asked) + frame(body) + frame(b"\x03\xe8", CLOSE))


async def _ask(stand: SocketStand, ca: Path | None = None) -> Reply:
    url = stand.url.replace("tcp:", "tls:").replace("ws:", "wss:") if ca else stand.url
    settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": {"url": url}})
    tls = TlsFiles(str(ca)) if ca else TlsFiles()
    transport = open_transport(settings.by_mount[""], tls, lambda _: True, anything_unfinished(), digest=False)
    assert isinstance(transport, SocketTransport)
    try:
        body = b'{"jsonrpc":"2.0","id":"c1","method":"m","params":[]}'
        return await transport.send(Outgoing("c1", body, RequestParts()), timeout=PATIENCE, max_bytes=2**24)
    finally:
        await transport.close()
        await stand.close()


@pytest.mark.parametrize("is_tls", [False, True])
@each("make", {"tcp": EndingStream, "websocket": EndingWebSocket})
async def test_an_answer_in_front_of_the_end_is_given(tmp_path: Path, make: type[SocketStand], is_tls: bool) -> None:
    authority, stand = Authority(tmp_path), make()
    if is_tls:
        stand.listener = Served(stand.serve, authority.server("127.0.0.1"))
    stand.result = lambda _: LARGE if make is EndingStream else "small"
    await stand.open()
    assert len((await _ask(stand, authority.file if is_tls else None)).body) > (10**6 if make is EndingStream else 20)
