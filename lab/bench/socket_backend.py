"""The bench's service over a WebSocket, and over TCP in lines. It answers as nginx does.

``python -m lab.bench.socket_backend PORT TCP_PORT``
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Final

from aiohttp import WSMsgType, web

from lab.bench.work import RESULT

_ID: Final = re.compile(rb'"id":\s*("[^"]*"|\d+)')
_REST: Final = b',"result":' + json.dumps(RESULT, separators=(",", ":")).encode() + b"}"


def _answer(message: bytes) -> bytes:
    found = _ID.search(message)
    return b'{"jsonrpc":"2.0","id":' + found[1] + _REST if found else b""


async def _talk(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT and (answer := _answer(message.data.encode())):
            await socket.send_str(answer.decode())
    return socket


async def _talk_in_lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(_answer(line) + b"\n")
    writer.close()


async def _serve(port: int, tcp_port: int) -> None:
    app = web.Application()
    app.router.add_get("/jsonrpc", _talk)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with await asyncio.start_server(_talk_in_lines, "127.0.0.1", tcp_port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
