"""A row of ``make fault``: clients that begin TLS and do not go on, at a gateway with ``server.tls``."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp

from lab.fault.table import MEMORY, Figure, Line, Row
from tests.fault.behaviours import SUM
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, serving
from tests.tls import Authority
from tests.tls_client import TlsClient

_SLOW: Final = 2_000
_OF_ONE_ADDRESS: Final = 100
_GIVEN: Final = 10.0
"""Seconds that the gateway gives them."""
_LATE: Final = 3.0
"""Seconds after that in which all must be gone: what this process needs to see it is among them."""
_QUIET: Final = 5.0
_RATE: Final = 50.0
CALL: Final = {"name": "add", "arguments": {"a": 2, "b": 3}}


class _Slow(asyncio.Protocol):
    """A client that sends these bytes, one a second. ``lasted`` is set when the gateway closes it."""

    def __init__(self, sent: bytes) -> None:
        self._rest = sent
        self.lasted: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._begun = transport, time.monotonic()
        self._send()

    def _send(self) -> None:
        if self._rest and not self._transport.is_closing():
            self._transport.write(self._rest[:1])
            self._rest = self._rest[1:]
            asyncio.get_running_loop().call_later(1.0, self._send)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lasted = time.monotonic() - self._begun


async def slow_handshakes() -> Line:
    """Half of them send nothing, the others a byte a second. Meanwhile somebody calls on connections of its own, which
    shake hands each time. All slow ones are gone after their time, and none before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * _SLOW)), hard))
    async with AsyncExitStack() as stack:
        authority = Authority(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        pem = authority.server_pem()
        backend = await stack.enter_async_context(ScriptedBackend())
        backend.on("add", SUM)
        knobs = (f"server.tls.cert_file={pem}", f"server.tls.key_file={pem}")
        program, front = await stack.enter_async_context(serving(backend.url, *knobs))
        url = f"https://127.0.0.1:{front.port}/mcp/tools/invoke"
        trust = ssl.create_default_context(cafile=str(authority.file))
        quiet, _ = await _calls(url, trust, _QUIET)
        hello = TlsClient(front.port, authority.file).hello()
        slow = [await _slow(front.port, number, hello if number % 2 else b"") for number in range(_SLOW)]
        waits, failed = await _calls(url, trust, _GIVEN + _LATE)
        lasted = [one.lasted for one in slow]
        figures = _figures(lasted, program)
    held = len(waits) / (len(waits) + failed)
    return Line(held=held, worst=max(waits), slowdown=_p99(waits) / _p99(quiet), figures=figures)


def _figures(lasted: list[float | None], program: Program) -> tuple[Figure, ...]:
    gone = [seconds for seconds in lasted if seconds is not None]
    return (
        Figure("slow clients that are still there", len(lasted) - len(gone), 0),
        Figure("slow clients that were cut early", sum(seconds < _GIVEN - 0.5 for seconds in gone), 0),
        Figure("longest", max(gone, default=0.0), _GIVEN + _LATE, " s"),
        Figure("memory", program.peak_memory() / 2**20, MEMORY, " MiB"),
    )


async def _slow(port: int, number: int, sent: bytes) -> _Slow:
    bare = socket.socket()
    bare.setblocking(False)
    bare.bind((f"127.0.1.{1 + number // _OF_ONE_ADDRESS}", 0))
    loop = asyncio.get_running_loop()
    await loop.sock_connect(bare, ("127.0.0.1", port))
    _, slow = await loop.create_connection(lambda: _Slow(sent), sock=bare)
    return slow


async def _calls(url: str, trust: ssl.SSLContext, seconds: float) -> tuple[list[float], int]:
    """Call at a steady rate, each on a new connection. Return how long each took, and how many failed."""
    waits: list[float] = []

    async def call(session: aiohttp.ClientSession) -> None:
        begun = time.monotonic()
        async with session.post(url, json=CALL) as response:
            assert (await response.json()) == {"result": {"sum": 5}}
        waits.append(time.monotonic() - begun)

    connector = aiohttp.TCPConnector(ssl=trust, force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30)) as session:
        running = []
        for _ in range(int(seconds * _RATE)):
            running.append(asyncio.create_task(call(session)))
            await asyncio.sleep(1 / _RATE)
        ended = await asyncio.gather(*running, return_exceptions=True)
    return waits, sum(isinstance(one, BaseException) for one in ended)


def _p99(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)]


ROWS: Final[dict[str, Row]] = {f"{_SLOW:,} clients slow with a TLS handshake": slow_handshakes}
