"""A client of ``stdio`` that writes and reads lines, with no library between.

async with connected(backend.url) as client:
    await client.initialize()
    assert (await client.ask("ping"))["result"] == {}
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from gateway.cli.stdio_command import serve_client
from gateway.config.source import load_settings
from tests.front import LEGACY, MODERN, ground
from tests.program import refuse_traceback
from tests.starts import Forked
from tests.starts import started as start
from tests.waiting import PATIENCE

META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

_MAX_LINE: Final = 2**24


class StdioClient:
    """Both ends of the pipes, and every message that came, in ``received``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self.received: list[dict[str, Any]] = []
        self._ids = 0

    async def send(self, *messages: Any) -> None:
        """Write messages, each on a line; bytes are written as they are."""
        for message in messages:
            self.writer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        await self.writer.drain()

    async def request(self, method: str, params: Mapping[str, Any] | None = None, id: Any = None) -> Any:
        """Send a request, and return its id."""
        self._ids += 1
        id = self._ids if id is None else id
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        return id

    async def notify(self, method: str, **params: Any) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, and return its response."""
        return await self.response(await self.request(method, params))

    async def call(self, tool: str, *, modern: bool = False, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments, **({"_meta": META} if modern else {})}
        return (await self.ask("tools/call", params))["result"]

    async def response(self, id: Any) -> dict[str, Any]:
        return await self.message(lambda one: one.get("id") == id and "method" not in one)

    async def notification(self, method: str) -> dict[str, Any]:
        return await self.message(lambda one: one.get("method") == method)

    async def message(self, wanted: Any) -> dict[str, Any]:
        """The first message that is wanted, awaited."""
        while True:
            for message in self.received:
                if wanted(message):
                    return message
            assert await self._read(), f"ended after {self.received}"

    async def initialize(self, version: str = LEGACY) -> dict[str, Any]:
        info = {"name": "tests", "version": "1"}
        answer = await self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})
        await self.notify("notifications/initialized")
        return answer

    async def close(self) -> None:
        """Close the gateway's input, and read until it has closed its output."""
        self.writer.close()
        await self.rest()

    async def rest(self) -> None:
        while await self._read():
            pass

    async def _read(self) -> bool:
        async with asyncio.timeout(PATIENCE):
            line = await self._reader.readline()
        if line:
            assert line.endswith(b"\n")
            self.received.append(json.loads(line))
        return bool(line)


class ConnectedClient(StdioClient):
    """``stop`` ends the gateway, ``serving`` is its task, and ``incoming`` the transport of what it writes."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stop: asyncio.Event,
        serving: asyncio.Task[None],
        incoming: asyncio.ReadTransport,
    ) -> None:
        super().__init__(reader, writer)
        self.stop = stop
        self.serving = serving
        self.incoming = incoming


@asynccontextmanager
async def connected(url: str, *more: str, blocking: bool = True) -> AsyncIterator[ConnectedClient]:
    """A client of a gateway in this process, on two pipes; ``blocking`` is the mode of the gateway's ends."""
    settings = load_settings(None, ground(url, *more), environ={})
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    os.set_blocking(theirs_in, blocking)
    os.set_blocking(theirs_out, blocking)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MAX_LINE)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(ours_out, "wb", buffering=0)
    )
    stop = asyncio.Event()
    serving = asyncio.create_task(serve_client(settings.by_mount[""], lambda: None, theirs_in, theirs_out, stop))
    serving.add_done_callback(lambda _: os.close(theirs_out))
    try:
        yield ConnectedClient(reader, asyncio.StreamWriter(transport, protocol, None, loop), stop, serving, incoming)
    finally:
        stop.set()
        await serving
        transport.close()
        incoming.close()


@asynccontextmanager
async def started(
    *arguments: str, stdout: int = asyncio.subprocess.PIPE, cwd: Path | None = None, **environ: str
) -> AsyncIterator[tuple[StdioClient, asyncio.subprocess.Process | Forked]]:
    """``stdio`` with these arguments as a process, which is killed at the end if it still runs."""
    pipe = asyncio.subprocess.PIPE
    process = await start(
        "stdio", *arguments, environ=environ, given=pipe, output=stdout, errors=pipe, folder=cwd, limit=_MAX_LINE
    )
    assert process.stdin is not None
    assert process.stderr is not None
    logged = asyncio.create_task(process.stderr.read())
    try:
        yield StdioClient(process.stdout or asyncio.StreamReader(), process.stdin), process
    finally:
        if process.returncode is None:
            process.kill()
        process.stdin.close()
        await process.wait()
        refuse_traceback((await logged).decode())
