"""The bench's service over a WebSocket: ``python -m tests.bench.websocket_backend PORT``. It answers as nginx does."""

from __future__ import annotations

import json
import re
import sys
from typing import Final

from aiohttp import WSMsgType, web

from tests.bench.work import RESULT

_ID: Final = re.compile(rb'"id":\s*("[^"]*"|\d+)')
_REST: Final = b',"result":' + json.dumps(RESULT, separators=(",", ":")).encode() + b"}"


async def _talk(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT and (found := _ID.search(message.data.encode())):
            await socket.send_str((b'{"jsonrpc":"2.0","id":' + found[1] + _REST).decode())
    return socket


if __name__ == "__main__":
    app = web.Application()
    app.router.add_get("/jsonrpc", _talk)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
