"""Rows of ``make fault``: services that are not reached over HTTP, and what they do on their connections."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiohttp import ClientSession

from lab.fault.rounds import certain
from lab.fault.stage import serving
from lab.fault.table import MEMORY, Figure, Line, Row
from tests.authorization.stand import Bearer
from tests.contract.late_answers import LATE, Seen, Teller, owing
from tests.contract.transports import SOCKETS, Act, Json, SocketStand
from tests.fault.ledger import Ledger, Told, proof_of
from tests.fault.load import Callers, Samples, addresses, session
from tests.program import Program
from tests.scrape import scrape
from tests.waiting import until

_MIB: Final = 1024 * 1024
_SERVICES: Final = 12
_UNFINISHED: Final = 31 * _MIB
_AT_ONCE: Final = 20
_SECONDS: Final = 3.0
_FINE: Final = {"right", "unsent", "failed"}
METHODS: Final = """methods:
- {name: work, params: [{name: number}, {name: wait}], structure: by-name}
"""


@asynccontextmanager
async def front(ledger: Ledger, stands: dict[str, SocketStand], *knobs: str) -> AsyncIterator[tuple[Program, int]]:
    """A gateway before these services, which count in the ledger what they run."""

    def run(message: Json) -> Any:
        number = message["params"]["number"]
        ledger.runs[number] += 1
        return proof_of(number)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "methods.yaml"
        file.write_text(METHODS)
        for stand in stands.values():
            stand.result = run
            await stand.open()
        backends = {name: {"url": one.url, "timeout": "5s", "listing": {"dialect": "static", "file": str(file)}}
                    for name, one in stands.items()}  # fmt: skip
        services = json.dumps({name: {"backend": backend} for name, backend in backends.items()})
        try:
            async with serving("auth.mode=off", f"services={services}", *knobs) as served:
                yield served
        finally:
            for stand in stands.values():
                await stand.close()


async def _spoilt(make: Callable[[], SocketStand], act: Act, must: set[Told]) -> Line:
    """Call for a while, then while the service does ``act``, and then again; the outcomes meanwhile are ``must``."""
    ledger, stand = Ledger(), make()
    knobs = ("services.far.backend.max_response=1MiB",)
    async with front(ledger, {"far": stand}, *knobs) as (program, port), AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(session(one)) for one in addresses(3, _AT_ONCE)]
        callers = Callers(ledger, [Bearer(one, port, None, "/far") for one in sessions], rate=80)
        before = await callers.calls(_SECONDS / 3)
        stand.act = act
        during = await callers.calls(_SECONDS)
        stand.act = Act.ECHO
        recovery = await callers.first_right(5.0)
        after = await callers.calls(_SECONDS / 3)
        told = Counter(sample.told for sample in during.of)
        figures = (
            Figure("calls right before and after, of all", -min(before.held, after.held), -1.0),
            Figure("outcomes that are not among those", sum(told.values()) - sum(told[word] for word in must), 0),
            Figure("VmHWM of the gateway", program.peak_memory() / _MIB, MEMORY, " MiB"),
        )
        return Line(
            recovery=recovery, **certain(ledger), figures=figures, notes=(f"{dict(told)}", *ledger.complaints[:3])
        )


async def _lost(make: Callable[[], SocketStand]) -> Line:
    """End connections with twenty calls under way, ten times."""
    ledger, stand = Ledger(), make()
    async with front(ledger, {"far": stand}) as (_, port), AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(session(one)) for one in addresses(3, _AT_ONCE)]
        callers = Callers(ledger, [Bearer(one, port, None, "/far") for one in sessions], rate=100)
        told: Counter[str] = Counter()
        for _ in range(10):
            stand.act, stand.messages, stand.release = Act.WAIT, [], asyncio.Event()
            calls = [asyncio.create_task(callers.call(client, "rest")) for client in callers.clients]
            await until(lambda: len(stand.messages), _AT_ONCE.__eq__)
            await stand.close()
            told.update([(await call).told for call in calls])
            stand.act = Act.ECHO
            await stand.open()
            told.update(sample.told for sample in [await callers.call(callers.clients[0], "rest")])
        figures = (
            Figure("calls under way that were told other than that they may have run", 200 - told["failed"], 0),
            Figure("calls afterwards that were not right", 10 - told["right"], 0),
        )
        return Line(**certain(ledger), figures=figures, notes=(f"{dict(told)}", *ledger.complaints[:3]))


async def _unfinished(make: Callable[[], SocketStand]) -> Line:
    """Let each of twelve services send most of the largest message and never its end, to several callers each."""
    ledger = Ledger()
    stands = {f"far{number}": make() for number in range(_SERVICES)}
    for stand in stands.values():
        stand.act, stand.size = Act.UNFINISHED, _UNFINISHED
    near = make()
    async with front(ledger, {**stands, "near": near}) as (program, port), AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(session(one)) for one in addresses(3, 4)]

        async def ask(mount: str) -> Samples:
            clients = [Bearer(one, port, None, mount) for one in sessions]
            callers = Callers(ledger, clients, rate=1)
            return Samples(await asyncio.gather(*(callers.call(client, "rest") for client in clients)))

        during = await asyncio.gather(*(ask(f"/{name}") for name in stands))
        told = Counter(sample.told for samples in during for sample in samples.of)
        for stand in stands.values():
            stand.act = Act.ECHO
        after = [await ask(f"/{name}") for name in (*stands, "near")]
        figures = (
            Figure("VmHWM of the gateway", program.peak_memory() / _MIB, MEMORY, " MiB"),
            Figure("other outcomes", sum(told.values()) - told["unsent"] - told["failed"], 0),
            Figure("calls that were sent, at least one for each of three", -told["failed"], -3),
            Figure("services that are not right afterwards", sum(samples.held < 1 for samples in after), 0),
        )
        return Line(**certain(ledger), figures=figures, notes=(f"{dict(told)}", *ledger.complaints[:3]))


async def _given_up(make: Callable[[], SocketStand]) -> Line:
    """Give up a hundred calls, and make a hundred others while their late answers come, in each form and both ways."""
    seen: dict[str, Seen] = {}
    for way, knobs in (("cancelled", ()), ("timed out", ("catalog.tools={note: {timeout: 200ms}}",))):
        stand = owing(make, LATE["id null"])
        await stand.open()
        ground = (f"backend.url={stand.url}", "auth.mode=off", "limits.invocation=100000/second")
        async with serving(*ground, *knobs) as (program, port), ClientSession() as client:
            admin_port = (await program.logged("gateway started"))["admin_port"]

            async def slots(client: ClientSession = client, admin_port: int = admin_port) -> float:
                return (await scrape(client, admin_port)).value("mcp_gateway_slots_in_use")

            teller = Teller(client, f"http://127.0.0.1:{port}", stand, slots)
            for form, stand.late in LATE.items():
                seen[f"{way}, {form}"] = await teller.balances(times_out=bool(knobs))
        await stand.close()
    figures = (
        Figure("calls that were not right", sum(one.calls - one.right for one in seen.values()), 0),
        Figure("answers with a word of another caller's", sum(one.leaked for one in seen.values()), 0),
    )
    return Line(figures=figures, notes=tuple(f"{name}: {one}" for name, one in seen.items() if one.right < one.calls))


_OUTCOMES: Final[dict[Act, tuple[str, set[Told]]]] = {
    Act.CUT: ("answers cut", {"failed", "unsent"}),
    Act.GARBAGE: ("no JSON", {"failed", "unsent"}),
    Act.BREAK_OFF: ("broken off", {"failed", "unsent"}),
    Act.LARGE: ("answers that are too large", {"failed"}),
    Act.SLOW: ("answers in pieces of 7 bytes", {"right"}),
    Act.GLUED: ("answers glued, in another order", {"right"}),
    Act.FOREIGN: ("answers of foreign ids", {"right"}),
    Act.FLOOD: ("a flood of notifications and requests", {"right"}),
}
ROWS: Final[dict[str, Row]] = {
    **{f"{kind}: connection lost with 20 calls under way": partial(_lost, make) for kind, make in SOCKETS.items()},
    **{
        f"{kind}: {name}": partial(_spoilt, make, act, must)
        for kind, make in SOCKETS.items()
        for act, (name, must) in _OUTCOMES.items()
    },
    **{f"{kind}: late answers without an id": partial(_given_up, make) for kind, make in SOCKETS.items()},
    **{
        f"{_SERVICES} services over {kind} send 31 MiB unfinished": partial(_unfinished, make)
        for kind, make in SOCKETS.items()
    },
}
