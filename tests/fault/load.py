"""Callers from addresses of their own who call at a steady rate, and how long each of them waits.

A wait counts from the moment when the call was due, so that a gateway that holds up everybody cannot make the figures
better by holding up the next call, too.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp

from tests.authorization.stand import CALLS, Bearer
from tests.fault.ledger import Ledger, Told, read

PATIENCE: Final = 20.0
"""Seconds after which an answer is given up as lost; more than any deadline here."""


@dataclass(frozen=True)
class Sample:
    """A call: seconds until its answer, and what that was."""

    waited: float
    told: Told


@dataclass(frozen=True)
class Samples:
    """The calls of a stretch of time."""

    of: Sequence[Sample]

    @property
    def held(self) -> float:
        """The share of calls that were answered rightly."""
        return sum(sample.told == "right" for sample in self.of) / len(self.of)

    @property
    def p99(self) -> float:
        """Seconds that 99 of 100 calls wait at most."""
        return sorted(sample.waited for sample in self.of)[int(len(self.of) * 0.99)]

    @property
    def worst(self) -> float:
        return max(sample.waited for sample in self.of)


@dataclass(frozen=True)
class Callers:
    """Clients that call a tool in turn, on each surface in turn, ``rate`` calls a second together."""

    ledger: Ledger
    clients: Sequence[Bearer]
    rate: float
    tool: str = "work"
    wait: float = 0.0
    patience: float = PATIENCE

    async def call(self, client: Bearer, surface: str, due: float | None = None) -> Sample:
        """One call, whatever comes of it."""
        clock = asyncio.get_running_loop().time
        number, due = self.ledger.number(), clock() if due is None else due
        try:
            async with asyncio.timeout(self.patience):
                answer = await client.call(surface, self.tool, {"number": number, "wait": self.wait})
            told, why = read(surface, number, answer)
            if told == "denied":  # each of these callers may call
                told, why = "wrong", f"{surface} {answer.status}"
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as failure:
            told, why = "lost", f"{surface} {failure!r}"
        except Exception as failure:  # whatever cannot be read as an answer is a wrong one
            told, why = "wrong", f"{surface} {failure!r}"
        return Sample(clock() - due, self.ledger.tell(number, told, why))

    async def calls(self, seconds: float) -> Samples:
        """Call for so long, and wait for all answers."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        calling: list[asyncio.Task[Sample]] = []
        for number, (client, surface) in enumerate(self.turns()):
            due = begun + number / self.rate
            if due > begun + seconds:
                break
            await asyncio.sleep(max(0.0, due - clock()))
            calling.append(asyncio.create_task(self.call(client, surface, due)))
        return Samples(await asyncio.gather(*calling))

    async def first_right(self, within: float) -> float:
        """Call on until the first right answer. Return the seconds until then, infinite where none comes in time."""
        clock = asyncio.get_running_loop().time
        begun, answered = clock(), []

        async def call(client: Bearer, surface: str) -> None:
            if (await self.call(client, surface)).told == "right":
                answered.append(clock() - begun)

        async with asyncio.TaskGroup() as calling:
            for client, surface in self.turns():
                calling.create_task(call(client, surface))
                await asyncio.sleep(1 / self.rate)
                if answered or clock() - begun > within:
                    break
        return min(answered, default=math.inf)

    def turns(self) -> itertools.cycle[tuple[Bearer, str]]:
        """Each client on each surface."""
        return itertools.cycle([(client, surface) for surface in CALLS for client in self.clients])


def addresses(network: int, count: int) -> list[str]:
    """Return so many addresses of this machine: all of 127.0.0.0/8 are."""
    return [f"127.0.{network}.{number}" for number in range(1, count + 1)]


def session(address: str) -> aiohttp.ClientSession:
    """Everything comes from this address, which makes it a caller of its own where there is no token."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, local_addr=(address, 0)))
