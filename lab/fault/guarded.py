"""Rows of ``make fault`` about who shows a token: listings that hang for some, an issuer that cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from lab.fault.network import spoilt
from lab.fault.rounds import measured
from lab.fault.stage import DEADLINE, serving
from lab.fault.table import Figure, Line, Row
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import LISTS, RESOURCE, Answer, Bearer, Listings, subject_of
from tests.fault.behaviours import Exchange, Hang
from tests.fault.issuers import issuer_behind_proxy
from tests.fault.ledger import METHODS, Ledger, service
from tests.fault.load import Callers, Sample, Samples, session
from tests.fault.proxy import Blackhole, FaultProxy
from tests.fault.scripted import ScriptedBackend

_STUCK: Final = "stuck"
_HANGING, _NEWCOMERS = 16, 40
_PATIENCE: Final = 4.0
"""Seconds within which a newcomer has the listing, however many others' hang."""


class _HangsForSome(Listings):
    """The listing hangs for those whose name says so."""

    def __init__(self) -> None:
        super().__init__([method.listed() for method in METHODS])

    async def play(self, exchange: Exchange) -> None:
        token = exchange.request.headers.get("Authorization", "").removeprefix("Bearer ")
        await (Hang("nothing").play(exchange) if subject_of(token).startswith(_STUCK) else super().play(exchange))


@dataclass(frozen=True)
class Guarded:
    """A gateway that wants tokens, of an issuer behind a fault proxy."""

    port: int
    ledger: Ledger
    issuer: ForgedIssuer
    backend: ScriptedBackend
    proxy: FaultProxy
    _stack: AsyncExitStack

    async def client(self, token: str) -> Bearer:
        return Bearer(await self._stack.enter_async_context(session("127.0.0.1")), self.port, token)

    def introspected(self, token: str, subject: str) -> str:
        """A new token that only the issuer can read."""
        claims = {key: value for key, value in self.issuer.claims(sub=subject).items() if key != "jti"}
        self.issuer.introspections[token] = {"active": True, **claims}
        return token


@asynccontextmanager
async def guarded(members: str, *knobs: str) -> AsyncIterator[Guarded]:
    """``members`` are further ones of the issuer in ``auth.issuers``."""
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        issuer, proxy = await stack.enter_async_context(issuer_behind_proxy())
        backend = await stack.enter_async_context(service(ledger))
        ground = (
            f"backend.url={backend.url}", "backend.listing.dialect=openrpc", f"backend.timeout={DEADLINE}s",
            f"server.public_url={RESOURCE.removesuffix('/mcp')}", "limits.discovery=100000/minute",
            f"auth.issuers=[{{issuer: '{issuer.issuer}'{members}}}]",
        )  # fmt: skip
        _, port = await stack.enter_async_context(serving(*ground, *knobs))
        yield Guarded(port, ledger, issuer, backend, proxy, stack)


async def hanging_listings() -> Line:
    """Some callers' listing hangs; newcomers want theirs."""
    async with guarded("", f"backend.credentials.backend_audience={RESOURCE}") as it:
        it.backend.on("rpc.discover", _HangsForSome())
        quiet = await _newcomers(it, "early")
        stuck = [
            asyncio.create_task((await it.client(it.issuer.sign(sub=f"{_STUCK}-{number}"))).list(LISTS[0]))
            for number in range(_HANGING)
        ]
        await it.backend.called("rpc.discover", _NEWCOMERS + 1)
        beside = await _newcomers(it, "late")
        for task in stuck:
            task.cancel()
        await asyncio.wait(stuck)
    figure = Figure("slowest newcomer", beside.worst, _PATIENCE, " s")
    note = f"quiet: {quiet.worst:.3g} s at most"
    return Line(held=beside.held, worst=beside.worst, figures=(figure,), notes=(note,))


async def _newcomers(it: Guarded, who: str) -> Samples:
    async def comes(number: int) -> Sample:
        clock = asyncio.get_running_loop().time
        client = await it.client(it.issuer.sign(sub=f"{who}-{number}"))
        await asyncio.sleep(number / 20)  # not all at once
        begun = clock()
        answer = await client.list(LISTS[number % len(LISTS)])
        return Sample(clock() - begun, "right" if _lists_all(answer) else "failed")

    return Samples(await asyncio.gather(*map(comes, range(_NEWCOMERS))))


def _lists_all(answer: Answer) -> bool:
    if answer.status != 200:
        return False
    page: Any = answer.json.get("result", answer.json)
    return sorted(tool["name"] for tool in page["tools"]) == sorted(method.name for method in METHODS)


@dataclass(frozen=True)
class _WithNewTokens(Callers):
    """Each call shows a token that the gateway has not seen."""

    it: Guarded | None = None

    async def call(self, client: Bearer, surface: str, due: float | None = None) -> Sample:
        assert self.it is not None
        token = self.it.introspected(f"new-{self.ledger.number()}", "new")
        return await super().call(await self.it.client(token), surface, due)


async def unreachable_issuer() -> Line:
    """Known tokens go on; of new ones it is said that they cannot be checked now, and not that they are bad."""
    shared = ("backend.listing.identity=shared", "backend.credentials.mode=none")
    async with guarded(", introspection: {client_id: gw}", *shared) as it:
        known = [await it.client(it.introspected(f"known-{number}", f"known-{number}")) for number in range(20)]

        healthy = Callers(it.ledger, known, rate=100)
        strangers = _WithNewTokens(it.ledger, [await it.client("")], rate=5, it=it)
        return await measured(it.ledger, lambda: spoilt(Blackhole(), it.proxy), healthy, strangers)


ROWS: Final[dict[str, Row]] = {
    f"listings of {_HANGING} callers hang, {_NEWCOMERS} others come": hanging_listings,
    "the issuer in a blackhole": unreachable_issuer,
}
