"""A flood of bad tokens, some hundreds a second, and how much longer honest callers wait beside it.

The gateway is a program of its own; the attacker shares the core of the load.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import ec_key
from tests.authorization.rows import ARGUMENTS, bearer
from tests.authorization.stand import RESOURCE, Bearer
from tests.authorization.test_canaries import watched

if TYPE_CHECKING:
    from tests.authorization.test_canaries import Watched

Kind: TypeAlias = Callable[[ForgedIssuer, int], list[str]]
_CALLS: Final = 300
_TOKENS: Final = 1000
_ROUNDS: Final = 3
_PAUSE: Final = 0.001


def random_kids(issuer: ForgedIssuer, count: int) -> list[str]:
    stranger = ec_key("k1")
    return [issuer.sign(key=stranger, header={"kid": f"random-{number}"}) for number in range(count)]


def bad_signatures(issuer: ForgedIssuer, count: int) -> list[str]:
    stranger = ec_key("k1")
    return [issuer.sign(key=stranger, sub=f"nobody-{number}") for number in range(count)]


KINDS: Final[tuple[Kind, ...]] = (random_kids, bad_signatures)


async def flood(it: Watched, tokens: list[str], stop: asyncio.Event) -> set[int]:
    """Show one token after another. Returns the statuses of the answers."""
    statuses: set[int] = set()
    client = it.stand.client()
    for token in tokens:
        if stop.is_set():
            break
        statuses.add((await client.send("GET", "/mcp/tools/list", None, bearer(token))).status)
        await asyncio.sleep(_PAUSE)
    return statuses


def slowdowns() -> list[float]:
    """How many times as long honest callers wait (99th percentile): the best of three rounds for each kind, since what
    the machine does besides only ever adds."""
    return [asyncio.run(_slowdown(kind)) for kind in KINDS]


async def _slowdown(kind: Kind) -> float:
    knobs = (f"backend.credentials.backend_audience={RESOURCE}", "backend.listing.identity=shared")
    async with watched(*knobs, "telemetry.log.level=info") as it:
        issuer = it.stand.issuer
        honest = it.stand.client(issuer.sign(sub="honest"))
        await _patience(honest)
        ratios = []
        for _ in range(_ROUNDS):
            quiet = await _patience(honest)
            stop = asyncio.Event()
            attack = asyncio.create_task(flood(it, kind(issuer, _TOKENS), stop))
            ratios.append(await _patience(honest) / quiet)
            stop.set()
            await attack
        return min(ratios)


async def _patience(honest: Bearer) -> float:
    """Seconds that 99 of 100 calls take at most."""
    waits = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        answer = await honest.call("jsonrpc", "add", ARGUMENTS)
        waits.append(time.perf_counter() - started)
        if answer.status != 200:
            raise ValueError(f"an honest call was answered with {answer.status}")
    return sorted(waits)[int(_CALLS * 0.99)]
