"""Rows of ``make fault``: what services share, and what one of them can take of it from its neighbours."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aiohttp import ClientSession

from lab.fault.neighbours import Seen, beside
from lab.fault.pusher import KINDS
from lab.fault.rounds import certain
from lab.fault.sockets import METHODS, front
from lab.fault.stage import serving
from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import Bearer
from tests.contract.lost import Lost, LostStream, LostWebSocket
from tests.contract.transports import SOCKETS, Act, SocketStand
from tests.fault.behaviours import result
from tests.fault.ledger import Ledger, service
from tests.fault.load import Callers, addresses, session
from tests.program import Program
from tests.waiting import until

_OPEN: Final = ("auth.mode=off", "limits.invocation=100000/second")
_PUSH_SECONDS: Final = 10.0
_RATES: Final = ((80, 0), (80, 9_000), (8_000, 0))
"""Bytes of a message, and messages in a second; 0 for as many as are read."""
_HANGING: Final = (6, 30)
_BODY: Final = 900 * 1000
_LISTING: Final = (1, 10, 30, 100)
_ROUNDS: Final = 3
_LONGEST_WHILE_LISTING: Final = 40.0
_WATCHED: Final = 10.0
_RIGHT_AGAIN: Final = 3.5
_AWAY: Final = 6.0
_SLOW: Final = 25.0
_PATIENCE: Final = 40.0


async def _pushed(wire: str, kind: str) -> Line:
    """Let a service push what belongs to no call, again and again, and call a neighbour meanwhile."""
    figures: list[Figure] = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "methods.yaml"
        file.write_text(METHODS)
        for size, rate in _RATES:
            ledger = Ledger()
            async with _stranger("pusher", wire, kind, size, rate, _PUSH_SECONDS) as url:
                seen = await _beside_pusher(ledger, url, file)
            name = f"{size} bytes, {rate or 'any number'} a second"
            figures += [Figure(f"{name}: {one.what}", one.value, one.at_most, one.unit) for one in seen.figures()]
    return Line(figures=tuple(figures))


async def _beside_pusher(ledger: Ledger, url: str, file: Path) -> Seen:
    far = {"url": url, "timeout": "3s", "listing": {"dialect": "static", "file": str(file)}}
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(service(ledger))
        services = json.dumps({"far": {"backend": far}, "near": {"backend": {"url": near.url}}})
        program, port = await stack.enter_async_context(serving(*_OPEN, f"services={services}"))
        admin_port = (await program.logged("gateway started"))["admin_port"]
        await program.logged("listing refreshed", 2)
        (ours, theirs) = [await stack.enter_async_context(session(one)) for one in addresses(3, 2)]
        callers = Callers(ledger, [Bearer(ours, port, None, "/near")], rate=1)
        pushed = Callers(Ledger(), [Bearer(theirs, port, None, "/far")], rate=1)
        await callers.call(callers.clients[0], "rest")
        async with beside(callers, program.pid, admin_port) as seen:
            end = asyncio.get_running_loop().time() + _PUSH_SECONDS
            while asyncio.get_running_loop().time() < end:
                await pushed.call(pushed.clients[0], "rest")
                await asyncio.sleep(0.1)
        return seen


async def _hanging(make: Callable[[], SocketStand]) -> Line:
    """Let a call hang at each of six services, then of thirty, and call the others over every wire."""
    figures: list[Figure] = []
    for count in _HANGING:
        ledger, hung = Ledger(), Ledger()
        far = {f"far{number}": make() for number in range(count)}
        for stand in far.values():
            stand.act = Act.WAIT
        near = {f"near{number}": kind() for number, kind in enumerate(SOCKETS.values())}
        async with AsyncExitStack() as stack:
            plain = await stack.enter_async_context(service(ledger))
            plain.on("keep", result({}))
            knobs = (f"services.plain.backend.url={plain.url}", *_OPEN[1:])
            program, port = await stack.enter_async_context(front(ledger, {**far, **near}, *knobs))
            await program.logged("listing refreshed", count + len(near) + 1)
            (ours, theirs) = [await stack.enter_async_context(session(one)) for one in addresses(3, 2)]
            calls = [
                asyncio.create_task(Callers(hung, [Bearer(theirs, port, None, f"/{name}")], 1).call(
                    Bearer(theirs, port, None, f"/{name}"), "rest"))
                for name in far
            ]  # fmt: skip
            await until(partial(_messages, far.values()), count.__eq__)
            told: Counter[str] = Counter()
            for name in near:
                callers = Callers(ledger, [Bearer(ours, port, None, f"/{name}")], rate=20)
                told.update(sample.told for sample in (await callers.calls(1.0)).of)
            large = [await _large_call(ours, port) for _ in range(10)]
            for stand in far.values():
                stand.release.set()
            await asyncio.gather(*calls)
        wrong = sum(told.values()) - told["right"]
        figures += [
            Figure(f"{count} hang: neighbours' calls that were not right", wrong, 0),
            Figure(f"{count} hang: calls of 900 kB that were not right", sum(not one for one in large), 0),
        ]
    return Line(figures=tuple(figures))


def _messages(stands: Iterable[SocketStand]) -> int:
    return sum(len(stand.messages) for stand in stands)


async def _large_call(client: ClientSession, port: int) -> bool:
    """Return whether a service over HTTP answered a large body."""
    text = "x" * _BODY
    asked = {"name": "keep", "arguments": {"value": text}}
    async with client.post(f"http://127.0.0.1:{port}/plain/mcp/tools/invoke", json=asked) as answer:
        return answer.status == 200 and not (await answer.json()).get("isError")


@asynccontextmanager
async def _stranger(module: str, *arguments: object) -> AsyncIterator[str]:
    """A service as a process of its own, and its address: what it computes delays no other's answer."""
    command = ("-m", f"lab.fault.{module}", *map(str, arguments))
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


async def _listing(count: int) -> Line:
    """Let so many services list at once, and call a neighbour meanwhile."""
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(service(ledger))
        url = await stack.enter_async_context(_stranger("lister"))
        backends = {f"far{number}": {"url": url, "listing": {"dialect": "openrpc"}} for number in range(count)}
        services = {name: {"backend": backend} for name, backend in {**backends, "near": {"url": near.url}}.items()}
        knobs = (*_OPEN, f"services={json.dumps(services)}", "catalog.ttl=1h")
        program, port = await stack.enter_async_context(serving(*knobs))
        admin_port = (await program.logged("gateway started"))["admin_port"]
        await program.logged("listing refreshed", count + 1)
        ours = await stack.enter_async_context(session(addresses(3, 1)[0]))
        callers = Callers(ledger, [Bearer(ours, port, None, "/near")], rate=1)
        async with ClientSession() as client:

            async def refresh() -> None:
                async with client.post(f"http://127.0.0.1:{admin_port}/refresh") as answer:
                    assert answer.status == 200, await answer.text()

            await refresh()  # what is done once after the start is over then
            async with beside(callers, program.pid, admin_port) as seen:
                for _ in range(_ROUNDS):
                    await refresh()
        return Line(figures=seen.figures(_LONGEST_WHILE_LISTING), **certain(ledger))


@asynccontextmanager
async def _one(ledger: Ledger, stand: SocketStand) -> AsyncIterator[tuple[Program, Callers]]:
    async with AsyncExitStack() as stack:
        knobs = (*_OPEN[1:], "services.far.backend.timeout=30s")
        program, port = await stack.enter_async_context(front(ledger, {"far": stand}, *knobs))
        sessions = [await stack.enter_async_context(session(one)) for one in addresses(3, 20)]
        clients = [Bearer(one, port, None, "/far") for one in sessions]
        yield program, Callers(ledger, clients, rate=20, patience=_PATIENCE)


async def _silent(make: Callable[[], Lost]) -> Line:
    """Lose all that comes on a connection, for good. New calls are right again, and each lost one is truly told."""
    ledger, stand = Ledger(), make()
    async with _one(ledger, stand) as (_, callers):
        before = await callers.calls(1.0)
        stand.lose()
        begun = asyncio.get_running_loop().time()
        lost = [asyncio.create_task(callers.call(client, "rest")) for client in callers.clients]
        await asyncio.sleep(_RIGHT_AGAIN)
        after = await callers.calls(2.0)
        told = Counter([(await call).told for call in lost])
        figures = (
            Figure("calls right before, of all", -before.held, -1.0),
            Figure(f"calls right after {_RIGHT_AGAIN} s, of all", -after.held, -1.0),
            Figure("lost calls that were told otherwise than that they failed", 20 - told["failed"], 0),
            Figure("seconds until the last was told", asyncio.get_running_loop().time() - begun, 32.0),
        )
        return Line(**certain(ledger), figures=figures, notes=(f"{dict(told)}", *ledger.complaints[:3]))


async def _away(make: Callable[[], Lost]) -> Line:
    """Lose the network for six seconds with calls under way. None of them is lost."""
    ledger, stand = Ledger(), make()
    async with _one(ledger, stand) as (_, callers):
        await callers.calls(0.5)
        stand.lose()
        calls = [asyncio.create_task(callers.call(client, "rest")) for client in callers.clients]
        await asyncio.sleep(_AWAY)
        stand.find()
        told = Counter([(await call).told for call in calls])
        figures = (Figure("calls that were not right", 20 - told["right"], 0),)
        return Line(**certain(ledger), figures=figures, notes=(f"{dict(told)}", *ledger.complaints[:3]))


async def _slow(make: Callable[[], Lost]) -> Line:
    """Let calls take 25 seconds. The one connection stays, and has new calls too."""
    ledger, stand = Ledger(), make()
    async with _one(ledger, stand) as (_, callers):
        stand.act = Act.WAIT
        calls = [asyncio.create_task(callers.call(client, "rest")) for client in callers.clients]
        await asyncio.sleep(_SLOW)
        stand.act = Act.ECHO
        meanwhile = await callers.calls(0.5)
        stand.release.set()
        told = Counter([(await call).told for call in calls])
        figures = (
            Figure("calls that were not right", 20 - told["right"], 0),
            Figure("calls meanwhile that were right, of all", -meanwhile.held, -1.0),
            Figure("connections", stand.listener.connections, 1),
        )
        return Line(**certain(ledger), figures=figures, notes=(f"{dict(told)}", *ledger.complaints[:3]))


_LOST: Final[dict[str, Callable[[], Lost]]] = {"tcp": LostStream, "WebSocket": LostWebSocket}
ROWS: Final[dict[str, Row]] = {
    **{
        f"{wire}: {kind} pushed without end": partial(_pushed, wire, kind)
        for wire in ("tcp", "unix", "ws")
        for kind in KINDS
    },
    **{f"{kind}: calls hang at 6 and at 30 services": partial(_hanging, make) for kind, make in SOCKETS.items()},
    **{f"{count} services list at once": partial(_listing, count) for count in _LISTING},
    **{f"{kind}: a connection lost in silence": partial(_silent, make) for kind, make in _LOST.items()},
    **{f"{kind}: a network away for 6 s": partial(_away, make) for kind, make in _LOST.items()},
    **{f"{kind}: calls of 25 s": partial(_slow, make) for kind, make in _LOST.items()},
}
