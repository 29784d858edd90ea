"""A parent of workers that are real processes, speak as workers do, and start in no time. Each answers a connection
with its number."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.config.source import load_settings
from gateway.process.parent import Parent
from gateway.process.worker import Worker
from gateway.settings import Settings
from tests.waiting import until

PATIENCE = 60.0
MANY = 40
LOOK = 0.25
REPLACED = "a worker ended and is replaced"
CLOSED = "a worker fails again and again: its socket is closed until it serves"
SCRIPT = """
import json, os, select, socket, sys, time
folder = sys.argv[1]
_, number, *inherited = map(int, os.environ.pop("JSONRPC_MCP_GATEWAY_WORKER").split(":"))
channel, lent, *own = (socket.socket(fileno=one) for one in inherited)
borrowed = []
while os.path.exists(f"{folder}/wait"):
    time.sleep(0.01)
if os.path.exists(f"{folder}/fail{number}"):
    sys.exit(7)
for one in own:
    one.listen(100)
while True:
    drains = os.path.exists(f"{folder}/drain{number}")
    state = {"unready": "stopping" if drains else None, "jobs": ["listing: running"]}
    channel.sendall(json.dumps(state).encode() + b"\\n")
    for ready in select.select([channel, lent, *([] if drains else own), *borrowed], [], [], 0.02)[0]:
        if ready is lent:
            for one in borrowed:
                one.close()
            borrowed = [socket.socket(fileno=one) for one in socket.recv_fds(lent, 1, 9)[1]]
            for one in borrowed:
                one.listen(100)
            break
        if ready is not channel:
            try:
                accepted, _ = ready.accept()
            except BlockingIOError:  # another worker was faster
                continue
            accepted.sendall(str(number).encode())
            accepted.close()
            continue
        words = channel.recv(100).split()
        if b"refresh" in words:
            said = {"answer": "refresh", "value": "" if number == 1 else "refused"}
            channel.sendall(json.dumps(said).encode() + b"\\n")
        if not words or (b"stop" in words and not os.path.exists(f"{folder}/deaf")):
            sys.exit(0)
"""


GROUND = (
    *("backend.url=http://127.0.0.1:1/jsonrpc", "auth.mode=off", "server.port=0", "server.admin_port=0"),
    *("store.url=redis://127.0.0.1:1", "server.secret_file=none"),  # nobody asks this store
)


def settings(*knobs: str) -> Settings:
    return load_settings(None, (*GROUND, *knobs), {})


class Looks:
    """The time between the looks of a parent, which passes when a test says so."""

    def __init__(self) -> None:
        self._begun = 0
        self._ended = asyncio.Semaphore(0)

    async def __call__(self, _: float) -> None:
        self._begun += 1
        await self._ended.acquire()

    async def passes(self, seconds: float, *awake: Worker) -> None:
        """Let so much time pass, in which these workers report."""
        for _ in range(int(seconds / LOOK)):
            begun = self._begun
            self._ended.release()
            await until(lambda begun=begun: self._begun > begun)  # type: ignore[misc]
            for worker in awake:
                await until(lambda worker=worker: worker.absence() is None)  # type: ignore[misc]


@asynccontextmanager
async def parent_of(
    workers: int, folder: Path, pause: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[Parent]:
    parent = made(workers, folder, pause)
    try:
        assert await parent.start() is None
        await until(lambda: parent.unready() is None and all(worker.status()["jobs"] for worker in parent.workers))
        yield parent
    finally:
        await parent.stop()


def made(workers: int, folder: Path, pause: Callable[[float], Awaitable[object]] = asyncio.sleep) -> Parent:
    command = (sys.executable, "-S", "-c", SCRIPT, str(folder))
    return Parent(settings(f"server.workers={workers}"), command, delay=lambda failures: 0.01, pause=pause)


async def who_answers(port: int) -> str:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = (await reader.read()).decode()
        writer.close()
    return answer


async def who_answer(port: int) -> Counter[str]:
    """How many of many connections each worker answers."""
    return Counter(await asyncio.gather(*(who_answers(port) for _ in range(MANY))))


def events(logged: list[dict[str, object]]) -> list[object]:
    return [entry["event"] for entry in logged]


async def until_both_answer(port: int) -> None:
    """Return once each of two workers has its part of the connections: a socket that was lent is given back soon."""

    async def seen() -> bool:
        return set(await who_answer(port)) == {"1", "2"}

    await until(seen)
