"""Rows of ``make fault``: strangers invent tokens about which an issuer is asked, and newcomers elsewhere have good
ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from lab.fault.guarded import Guarded, guarded
from lab.fault.inventor import UNDER_WAY
from lab.fault.table import Figure, Line, Row
from tests.fault.load import addresses
from tests.fault.proxy import Latency
from tests.program import Program

_NEWCOMERS: Final = 40
_EVERY: Final = 0.5
"""Seconds from one newcomer to the next, all of one address. Of 50 questions a second each of 21 has 2.4."""
_WITHIN: Final = 2.0
_SHARE: Final = 0.95
_EACH_WAY: Final = 0.1
"""Seconds of the network between the gateway and the issuer: a question takes twice that."""
_SHARED: Final = ("backend.listing.identity=shared", "backend.credentials.mode=none")


async def invented(rate: float, of: Sequence[str]) -> Line:
    async with guarded(", introspection: {client_id: gw}", *_SHARED) as it:
        it.proxy.fault = Latency(_EACH_WAY)
        before = it.issuer.count("introspection")
        begun = asyncio.get_running_loop().time()
        async with Program(str(it.port), str(rate), *of, module="lab.fault.inventor") as strangers:
            await strangers.said(UNDER_WAY)
            comes = []
            for number in range(_NEWCOMERS):
                comes.append(asyncio.create_task(_comes(it, number)))
                await asyncio.sleep(_EVERY)
            told = await asyncio.gather(*comes)
            assert strangers.memory(), "the strangers have ended"
            seconds = asyncio.get_running_loop().time() - begun
        asked = it.issuer.count("introspection") - before
    waits = [waited for status, waited in told if status == 200]
    figures = (
        Figure(f"newcomers within {_WITHIN:g} s, of all", -sum(one <= _WITHIN for one in waits) / len(told), -_SHARE),
        Figure("questions to the issuer a second", asked / seconds, 50 * (1 + 1 / seconds)),
    )
    notes = (
        (f"{len(told) - len(waits)} of {len(told)} were refused", f"median {sorted(waits)[len(waits) // 2]:.2f} s")
        if waits
        else ()
    )
    return Line(worst=max(waits, default=None), figures=figures, notes=notes)


async def _comes(it: Guarded, number: int) -> tuple[int, float]:
    """Show a token that nobody has seen. Return the status of the answer, and how many seconds it took."""
    client = await it.client(it.introspected(f"new-{number}", f"new-{number}"))
    begun = asyncio.get_running_loop().time()
    answer = await client.list("rest")
    return answer.status, asyncio.get_running_loop().time() - begun


ROWS: Final[dict[str, Row]] = {
    "500 tokens a second are invented at one address": partial(invented, 500, addresses(5, 1)),
    "25 tokens a second are invented at each of 20 addresses": partial(invented, 25, addresses(5, 20)),
}
