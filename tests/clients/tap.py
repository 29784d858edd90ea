"""Between a client and the gateway: passes every byte on, and remembers what was said.

Clients say what they make of an answer; only the wire says what was sent, and that nothing was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.fault.scripted import Listener

# Where a JSON text begins: a body, plain or chunked, or an event of a stream.
_BODY: Final = re.compile(rb"(?:\n|data: ?)(?=[{\[])")
_VERSION: Final = re.compile(rb"^mcp-protocol-version:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


class Tap(Listener):
    """A relay to ``target``, a port of 127.0.0.1. ``asked`` and ``answered`` are the bytes of each connection."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self.asked: list[bytearray] = []
        self.answered: list[bytearray] = []
        self._target = target
        self._open = 0
        self._left = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def versions(self) -> set[str]:
        """The protocol versions that the client's headers named."""
        return {match.decode() for data in self.asked for match in _VERSION.findall(bytes(data))}

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages from the client."""
        return [message for data in self.asked for message in _messages(bytes(data))]

    @property
    def responses(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages from the gateway."""
        return [message for data in self.answered for message in _messages(bytes(data))]

    def transcript(self, most: int = 12_000) -> str:
        """Everything, for a person who looks for the cause of a failure."""
        parts = []
        for number, (asked, answered) in enumerate(zip(self.asked, self.answered, strict=True), 1):
            for who, data in (("client", asked), ("gateway", answered)):
                parts.append(f"--- connection {number}, {who}\n{data.decode(errors='replace')}")
        return "\n".join(parts)[-most:]

    async def deserted(self) -> None:
        """Return when no connection of the client is left; bound the wait with ``asyncio.timeout``."""
        async with self._left:
            await self._left.wait_for(lambda: self._open == 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked, answered = bytearray(), bytearray()
        self.asked.append(asked)
        self.answered.append(answered)
        upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self._target)
        self._open += 1
        pumps = [
            asyncio.create_task(_pump(reader, to_upstream, asked)),
            asyncio.create_task(_pump(upstream, writer, answered)),
        ]
        try:
            # Neither side half-closes: whoever ends, ends the exchange for both.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Closed before anything is awaited: this task may be cancelled while it ends. A transport that has bytes
            # left closes when they are read, and that may be never.
            to_upstream.transport.abort() if to_upstream.transport.get_write_buffer_size() else to_upstream.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            with contextlib.suppress(ConnectionError):
                await to_upstream.wait_closed()
            async with self._left:
                self._open -= 1
                self._left.notify_all()


@asynccontextmanager
async def tapped(port: int) -> AsyncIterator[Tap]:
    """A tap before ``port`` that is closed at the end."""
    tap = Tap(port)
    await tap.open()
    try:
        yield tap
    finally:
        await tap.close()


async def _pump(source: asyncio.StreamReader, drain: asyncio.StreamWriter, record: bytearray) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            record += data
            drain.write(data)
            await drain.drain()


def _messages(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for start in _BODY.finditer(data):
        try:
            value, _ = json.JSONDecoder().raw_decode(data[start.end() :].decode(errors="replace"))
        except ValueError:
            continue
        items = value if isinstance(value, list) else [value]
        found += [item for item in items if isinstance(item, dict) and "jsonrpc" in item]
    return found
