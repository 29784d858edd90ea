"""Rows of ``make fault``: one caller's calls hang, as many as its limits allow, and the others call on; a service that
says it is busy.

A call of the ledger's ``work`` whose ``wait`` is :data:`HANGS` or more hangs, as arguments may make a method hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from lab.fault.rounds import Certain, certain
from lab.fault.stage import serving
from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import CALLS, REST, Bearer
from tests.fault.behaviours import Body, Exchange, Hang, error
from tests.fault.ledger import METHODS, Ledger, Work, outcome_of
from tests.fault.load import Callers, Samples, addresses, session
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend

HANGS: Final = 1000.0
STALL: Final = Rpc("stall", METHODS[0].params, {"type": "object"}, "Stall")
_TIMEOUTS: Final = (4, 30)
"""Seconds that calls have, each of a service of its own."""
_SECONDS: Final = 60.0
_TWO: Final = 30
"""Calls that one caller has under way while two tools hang, and while arguments hang within one."""
_ONE: Final = 32
_SHARE_SECONDS: Final = 20.0
_AGAIN: Final = 1.0
"""Seconds after which the one caller repeats a call that was refused."""
_AT_ONCE: Final = 1.0
"""Seconds within which another's call is answered."""


@dataclass(frozen=True)
class _WorkOrHang:
    """Work, unless the arguments make it hang."""

    ledger: Ledger

    async def play(self, exchange: Exchange) -> None:
        params = exchange.request.params
        if params.get("wait", 0) < HANGS:
            await Work(self.ledger).play(exchange)
            return
        self.ledger.runs[params["number"]] += 1
        await Hang("nothing").play(exchange)


@dataclass(frozen=True)
class _Several:
    """A gateway before several services, each with a ledger of its own."""

    port: int
    ledgers: dict[str, Ledger]
    backends: dict[str, ScriptedBackend]
    _stack: AsyncExitStack

    async def callers(self, name: str, network: int, count: int, rate: float, tool: str = "work") -> Callers:
        sessions = [await self._stack.enter_async_context(session(one)) for one in addresses(network, count)]
        clients = [Bearer(one, self.port, None, f"/{name}") for one in sessions]
        return Callers(self.ledgers[name], clients, rate, tool)

    def certain(self) -> Certain:
        counts = [certain(ledger) for ledger in self.ledgers.values()]
        return {
            "wrong": sum(one["wrong"] for one in counts),
            "twice": sum(one["twice"] for one in counts),
            "lost": sum(one["lost"] for one in counts),
        }


@asynccontextmanager
async def _several(services: dict[str, Sequence[str]], *knobs: str) -> AsyncIterator[_Several]:
    """``services`` have a name and knobs of their ``backend`` each."""
    async with AsyncExitStack() as stack:
        ledgers = {name: Ledger() for name in services}
        backends = {
            name: await stack.enter_async_context(ScriptedBackend((*METHODS, STALL), _WorkOrHang(ledgers[name])))
            for name in services
        }
        ground = [
            f"services.{name}.backend.{knob}"
            for name, own in services.items()
            for knob in (f"url={backends[name].url}", "listing.dialect=openrpc", *own)
        ]
        knobs = ("auth.mode=off", "limits.invocation=100000/minute", *knobs)
        program, port = await stack.enter_async_context(serving(*knobs, *ground))
        for number in range(len(services)):
            await program.logged("listing refreshed", number + 1)
        yield _Several(port, ledgers, backends, stack)


@asynccontextmanager
async def _hanging(greedy: Callers, count: int, tools: Sequence[str]) -> AsyncIterator[None]:
    """The one caller of ``greedy`` has so many calls under way that hang, and makes each again."""

    async def call_on(tool: str) -> None:
        while True:
            number = greedy.ledger.number()
            arguments = {"number": number, "wait": HANGS}
            answer = await greedy.clients[0].call(REST, tool, arguments)
            if answer.status != 504:  # it was refused
                await asyncio.sleep(_AGAIN)

    calls = [asyncio.create_task(call_on(tools[number % len(tools)])) for number in range(count)]
    try:
        yield
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def greedy_caller() -> Line:
    """Calls of one caller hang, and no other caller's is refused; then the services are gone for everyone."""
    hanging = {"tools": ("hang", "stall"), "arguments": ("work",)}
    services: dict[str, Sequence[str]] = {
        f"{what}_{seconds}": (f"timeout={seconds}s",) for what in hanging for seconds in _TIMEOUTS
    }
    async with _several(services, f"limits.concurrent={_ONE}") as it:

        async def beside(name: str) -> Samples:
            healthy = await it.callers(name, 11, 10, rate=4)
            greedy = await it.callers(name, 12, 1, rate=1)
            async with _hanging(greedy, _TWO, hanging[name.partition("_")[0]]):
                return await healthy.calls(_SECONDS)

        heard = dict(zip(services, await asyncio.gather(*map(beside, services)), strict=True))
        calls = [sample for samples in heard.values() for sample in samples.of]
        notes = [
            f"{name}: {sum(one.told != 'right' for one in samples.of)} of {len(samples.of)} calls of others failed"
            for name, samples in heard.items()
        ]
        gone = max(await asyncio.gather(*(_calls_until_open(it, name) for name in ("tools_4", "arguments_4"))))
        refused = Figure("others' calls refused or failed", sum(one.told != "right" for one in calls), 0)
        opened = Figure("calls until a service that is gone is refused", gone, 20)
        return Line(held=Samples(calls).held, **it.certain(), figures=(refused, opened), notes=tuple(notes))


async def _calls_until_open(it: _Several, name: str) -> int:
    """How many calls of two tools and ten callers time out before another's call is refused, once nothing answers."""
    for method in (*METHODS, STALL):
        it.backends[name].on(method.name, Hang("nothing"))
    callers = [(await it.callers(name, 13, 10, rate=1)).clients, (await it.callers(name, 14, 1, rate=1)).clients]
    (*crowd, newcomer) = (client for clients in callers for client in clients)
    for number in range(10, 60, 10):
        gone = {"number": "gone", "wait": HANGS}
        calls = [client.call(REST, ("work", "stall")[at % 2], gone) for at, client in enumerate(crowd)]
        await asyncio.gather(*calls)
        asked = newcomer.call(REST, "work", gone)
        try:
            async with asyncio.timeout(1.0):
                if "not sent" in outcome_of(REST, await asked)[1]:
                    return number
        except TimeoutError:  # it was sent
            continue
    return 1000


async def greedy_caller_of_one_tool() -> Line:
    """All calls that one caller may have under way hang in one tool, which others call, in a large pool and in the
    least one for which this holds."""
    services: dict[str, Sequence[str]] = {f"of_{count}": (f"connections={count}", "timeout=30s") for count in (100, 12)}
    async with _several(services, f"limits.concurrent={_ONE}") as it:

        async def beside(name: str) -> Samples:
            healthy = await it.callers(name, 11, 1, rate=10)
            greedy = await it.callers(name, 12, 1, rate=1)
            async with _hanging(greedy, _ONE, ("work",)):
                await it.backends[name].called("work")
                return await healthy.calls(_SHARE_SECONDS)

        heard = dict(zip(services, await asyncio.gather(*map(beside, services)), strict=True))
        late = {
            name: sum(one.told != "right" or one.waited > _AT_ONCE for one in samples.of) / len(samples.of)
            for name, samples in heard.items()
        }
        figures = tuple(
            Figure(f"of another's calls not answered within a second, {name.replace('_', ' ')}", 100 * share, 5, " %")
            for name, share in late.items()
        )
        worst = max(samples.worst for samples in heard.values())
        return Line(worst=worst, **it.certain(), figures=figures)


async def busy_service() -> Line:
    """The service answers 429 and 503 with a time, which is what callers of each surface are told."""
    pages = Body(content_type=None), Body(b"<html>Busy</html>", content_type="text/html")
    said = {429: "did not run the call", 503: "whether the call took effect is unknown"}
    answers = [(429, body) for body in (*pages, error(-32000, "Busy"))] + [(503, body) for body in pages]
    async with _several({"busy": ()}) as it:
        client = (await it.callers("busy", 11, 1, rate=1)).clients[0]
        untold, calls = 0, 0
        for status, body in answers:
            headers = (("Retry-After", "9"),)
            it.backends["busy"].on("work", Body(body.payload, status, body.content_type, headers))
            for surface in CALLS:
                answer = await client.call(surface, "work", {"number": "0", "wait": 0})
                meta = answer.json.get("result", {}).get("_meta", {})
                wait = answer.headers.get("Retry-After", meta.get("retryAfter"))
                untold += str(wait) != "9" or said[status] not in outcome_of(surface, answer)[1]
                calls += 1
        return Line(figures=(Figure(f"of {calls} callers not told when to come again", untold, 0),))


ROWS: Final[dict[str, Row]] = {
    f"{_TWO} calls of one caller hang": greedy_caller,
    f"{_ONE} calls of one caller hang in one tool": greedy_caller_of_one_tool,
    "a service is busy": busy_service,
}
