"""A hundred idle streams, or a thousand, on a gateway of its own: whether a change reaches them all. What they
cost in memory is a row of ``make bench``."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Sequence
from typing import Final

import pytest
from aiohttp import ClientSession

from tests.extent import size
from tests.fault.behaviours import result
from tests.fault.methods import ADD, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, serving
from tests.protocol.talk import JSON, Client, legacy_headers, modern_headers, modern_request
from tests.waiting import PATIENCE

STREAMS: Final = size(1000, by_day=100)
KNOBS: Final = (
    "backend.listing.dialect=openrpc",
    "catalog.ttl=200ms",
    f"limits.streams={2 * STREAMS}",
)
ACKNOWLEDGED: Final = b"notifications/subscriptions/acknowledged"
CHANGED: Final = b"notifications/tools/list_changed"
LISTEN: Final = json.dumps(
    modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
).encode()


class Raw:
    """A client that costs the test's own process as little as possible."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def until(self, text: bytes) -> None:
        """Read until this has come."""
        await self._reader.readuntil(text)

    def close(self) -> None:
        self._writer.transport.abort()


def _head(verb: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [f"{verb} /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (JSON | headers).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


MODERN: Final = _head("POST", modern_headers("subscriptions/listen"), LISTEN)
LEGACY: Final = _head("GET", legacy_headers("2025-11-25"))


async def connected(port: int, request: bytes) -> Raw:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    writer.write(request)
    return Raw(reader, writer)


async def opened(port: int, count: int, request: bytes, first: bytes) -> list[Raw]:
    """Streams whose first event has come, opened a hundred at a time: more would wait in the listener's queue."""
    clients: list[Raw] = []
    for start in range(0, count, 100):
        some = [await connected(port, request) for _ in range(min(100, count - start))]
        await asyncio.gather(*(client.until(first) for client in some))
        clients += some
    return clients


def close(clients: Sequence[Raw]) -> None:
    for client in clients:
        client.close()


def ready_for(streams: int) -> None:
    """Let this process have that many connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * streams)), hard))


@pytest.fixture
async def gateway(backend: ScriptedBackend) -> AsyncIterator[tuple[Program, int]]:
    """A process of its own, and its port."""
    ready_for(STREAMS)
    async with serving(backend.url, *KNOBS) as (program, front):
        yield program, int(front.base.rpartition(":")[2])


@pytest.mark.parametrize(
    ("request_", "first"),
    [pytest.param(MODERN, ACKNOWLEDGED, id="modern"), pytest.param(LEGACY, b":\n\n", id="legacy")],
)
async def test_each_of_many_idle_streams_hears_of_a_change(
    backend: ScriptedBackend, gateway: tuple[Program, int], request_: bytes, first: bytes
) -> None:
    """One that never reads a byte stalls none of the others."""
    _, port = gateway
    async with asyncio.timeout(PATIENCE):
        dead = await connected(port, request_)
        clients = await opened(port, STREAMS, request_, first)
        backend.on("rpc.discover", result(openrpc([ADD])))
        await asyncio.gather(*(client.until(CHANGED) for client in clients))
    close([*clients, dead])


async def test_calls_go_on_while_many_streams_are_told(
    backend: ScriptedBackend, gateway: tuple[Program, int], session: ClientSession
) -> None:
    _, port = gateway
    async with asyncio.timeout(PATIENCE):
        clients = await opened(port, STREAMS, MODERN, ACKNOWLEDGED)
        backend.on("rpc.discover", result(openrpc([ADD])))
        telling = asyncio.gather(*(client.until(CHANGED) for client in clients))
        caller = Client(session, port)
        answered = 0
        while not telling.done():
            assert (await caller.modern("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})).status == 200
            answered += 1
        await telling
    close(clients)
    assert answered > 0
