"""The least that a server in Python does for a request: ``python -m lab.bench.least_server PORT FILE``.

A protocol on httptools that reads head and body, starts a task and answers with a file from memory. It bounds nothing
and refuses nothing: no program should serve strangers with it. It shows what aiohttp's server costs beside it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import cast

import httptools
import uvloop
from multidict import CIMultiDict


class LeastServer(asyncio.Protocol):
    """Answer each request with ``body``."""

    def __init__(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = head.encode() + body
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._lines: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        headers, body = CIMultiDict(self._lines), b"".join(self._parts)
        self._lines, self._parts = [], []
        task = self._loop.create_task(self._respond(headers, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, headers: CIMultiDict[str], body: bytes) -> None:
        if headers.get("Content-Type") == "application/json" and body:
            self._transport.write(self._answer)


async def main(port: int, body: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: LeastServer(body), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]).read_bytes()))
