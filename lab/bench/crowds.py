"""What many clients cost at once: how long the last of 2,000 new connections waits beside the median one, and the
memory of a gateway whose clients do not read their answers."""

from __future__ import annotations

import asyncio
import resource
import socket
import statistics
import time
from contextlib import AsyncExitStack
from typing import Final

from lab.bench.machine import Unusable
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend
from tests.program import serving
from tests.protocol.test_accepting import sockets
from tests.protocol.test_many_streams import ready_for
from tests.protocol.test_slow_clients import CALL, PING, client

_MIB: Final = 1024 * 1024
_CONNECTIONS: Final = 2000
_ROUNDS: Final = 3
_ALL_OF_ONE_ADDRESS: Final = f"server.max_connections={8 * _CONNECTIONS}"
"""One address may have a quarter of the connections, and those of the round before may not be gone yet."""
_CLIENTS: Final = 60
_ANSWER: Final = 7 * _MIB
_PATIENCE: Final = 60.0


def last_beside_median() -> list[float]:
    """How many times as long the 99th percentile of 2,000 connections that come at once waits for its first answer as
    the 50th: the best of three rounds, since what the machine does besides only ever adds."""
    return [min(asyncio.run(_of_connections()))]


async def _of_connections() -> list[float]:
    ready_for(_CONNECTIONS)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _CONNECTIONS + 200:
        raise Unusable(f"{_CONNECTIONS} connections need as many open files: ulimit -Hn")
    async with ScriptedBackend() as backend, serving(backend.url, _ALL_OF_ONE_ADDRESS) as (_, front):
        port = int(front.base.rpartition(":")[2])
        return [await _round(port) for _ in range(_ROUNDS)]


async def _round(port: int) -> float:
    loop = asyncio.get_running_loop()
    with sockets(_CONNECTIONS) as many:
        waits: list[float] = []
        started = time.perf_counter()

        async def ask(one: socket.socket) -> None:
            await loop.sock_connect(one, ("127.0.0.1", port))
            await loop.sock_sendall(one, PING)
            answer = await loop.sock_recv(one, 4096)
            waits.append(time.perf_counter() - started)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise Unusable(f"a wrong answer:\n{answer[:500].decode(errors='replace')}")

        await asyncio.gather(*map(ask, many))
    cuts = statistics.quantiles(waits, n=100)
    return cuts[98] / cuts[49]


def mebibytes_for_unread() -> list[float]:
    """The most memory that a whole gateway ever has while 60 clients, each a caller of its own, ask for answers of 7
    MiB and do not read them."""
    return [asyncio.run(_of_unread())]


async def _of_unread() -> float:
    async with ScriptedBackend() as backend, serving(backend.url) as (program, front), AsyncExitStack() as stack:
        backend.on("echo", result({"echo": "x" * _ANSWER}))
        port = int(front.base.rpartition(":")[2])
        clients = [await stack.enter_async_context(client(port, f"127.0.1.{number + 1}")) for number in range(_CLIENTS)]
        for one in clients:
            one.write(CALL)
        async with asyncio.timeout(_PATIENCE):
            for one in clients:  # so much is read of each: by then its answer is whole, or refused
                await one.reader.readuntil(b"\r\n\r\n")
                one.stop_reading()
        refused = program.output.count('"status":503')
        if refused == _CLIENTS:
            raise Unusable("all calls were refused")
        return program.peak_memory() / _MIB
