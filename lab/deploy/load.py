"""Calls without a pause, on each surface and in both eras, and what came of each: with a number that the wire before
each service counts."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import aiohttp
from multidict import CIMultiDict

from lab.deploy.services import HOST, Kind
from tests.authorization.stand import CALLS, MODERN, Bearer
from tests.fault.proxy import Sound, Way
from tests.front import Called
from tests.protocol.official import LEGACY
from tests.protocol.talk import Answer

REPLICA: Final = "X-Replica"
"""The header in which nginx names the replicas that it asked."""
RATE: Final = 3.0
"""Calls a second of each caller at each service, which is below limits.invocation by far."""
_FIRST: Final = 7_301_900_000
_NUMBER: Final = re.compile(rb"73019\d{5}")
_SHOWN: Final = re.compile(rb"(?i)\r\nauthorization: ([^\r]+)")
_PATIENCE: Final = 60.0

Told: TypeAlias = Literal["right", "gone", "refused", "unsent", "failed", "wrong", "cut"]
"""What a caller heard: the right result; 404; 429; that the call was not sent; another failure; what cannot be true;
nothing of the gateway's, since nginx answered or the stream ended."""


@dataclass(frozen=True)
class Call:
    """A call that is over. Times are of the event loop's clock."""

    number: str
    service: str
    surface: str
    began: float
    ended: float
    told: Told
    replica: str
    why: str


@dataclass(frozen=True)
class Counted(Sound):
    """Count the numbers in what a service is sent, and the credentials that it is shown."""

    runs: Counter[str]
    shown: Counter[str]

    async def carry(self, block: bytes, way: Way) -> None:
        if way.passing == "requests":
            self.runs.update({number.decode() for number in _NUMBER.findall(block)})
            self.shown.update(value.decode() for value in _SHOWN.findall(block))
        await way.send(block)


class Caller(Bearer):
    """A client that asks nginx for the host of the gateway."""

    def request(self, verb: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        sent = CIMultiDict(headers)
        sent["Host"] = HOST
        return super().request(verb, path, body, sent)


@dataclass
class Load:
    """``runs`` counts what reached the services, by number; ``calls`` are those that are over."""

    session: aiohttp.ClientSession
    port: int
    tokens: Mapping[tuple[str, str], str]
    """By service and person."""
    runs: Counter[str] = field(default_factory=Counter)
    calls: list[Call] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    """Services for which 404 is right from now on."""
    under_way: set[str] = field(default_factory=set)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(_FIRST))
    _loops: list[asyncio.Task[None]] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def begin(self, service: str, kind: Kind, people: Iterable[str], rate: float = RATE) -> None:
        """Have each person call a service on each surface in turn, until :meth:`end`."""
        for person in people:
            caller = Caller(self.session, self.port, self.tokens[service, person], f"/{service}")
            self._loops.append(asyncio.create_task(self._loop(caller, service, kind, rate)))

    async def end(self) -> None:
        """Wait for the calls under way, and stop."""
        loops, self._loops = self._loops, []
        await asyncio.gather(*loops)

    async def more(self, count: int) -> None:
        """Return once so many more calls are over."""
        goal = len(self.calls) + count
        async with self._news:
            await self._news.wait_for(lambda: len(self.calls) >= goal)

    async def _loop(self, caller: Bearer, service: str, kind: Kind, rate: float) -> None:
        clock = asyncio.get_running_loop().time
        me = asyncio.current_task()
        begun = clock() + hash((service, id(caller))) % 100 / 100 / rate
        for turn, surface in enumerate(itertools.cycle(CALLS)):
            await asyncio.sleep(max(0.0, begun + turn / rate - clock()))
            if me not in self._loops:
                return
            number, began = str(next(self._numbers)), clock()
            self.under_way.add(number)
            told, replica, why = await self._call(caller, service, surface, kind, number)
            self.under_way.discard(number)
            self.calls.append(Call(number, service, surface, began, clock(), told, replica, why))
            async with self._news:
                self._news.notify_all()

    async def _call(self, caller: Bearer, service: str, surface: str, kind: Kind, number: str) -> tuple[Told, str, str]:
        """Make one call. Return what it came to, who answered, and why it is not right."""
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await caller.call(surface, kind.tool, kind.arguments(number))
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as failure:
            return "cut", "", repr(failure)
        except Exception as failure:  # what is no answer of MCP is a wrong one
            return "wrong", "", repr(failure)
        replica = answer.headers.get(REPLICA, "")
        try:
            told, why = self._read(answer, service, surface, kind, number)
        except Exception as failure:
            told, why = "wrong", repr(failure)
        return told, replica, why and f"{answer.status} {why} {answer.body[:200]!r}"

    def _read(self, answer: Answer, service: str, surface: str, kind: Kind, number: str) -> tuple[Told, str]:
        if answer.status in (502, 504) and b"<center>nginx" in answer.body:
            return "cut", "of nginx"
        if answer.status == 404 and service in self.removed:
            return "gone", ""
        if answer.status == 429:
            return "refused", "too many"
        value, failure = _heard(surface, answer)
        if failure:
            return ("unsent" if "not sent" in failure else "failed"), failure
        if answer.status != 200 or not kind.is_right(number, value):
            return "wrong", f"result {value!r}"
        return "right", ""

    def twice(self, calls: Iterable[Call]) -> list[Call]:
        """Return the calls that reached a service more than once."""
        return [call for call in calls if self.runs[call.number] > 1]

    def lies(self, calls: Iterable[Call]) -> list[Call]:
        """Return the calls with an answer that is not true: a result of a call that never ran, or "not sent" of one
        that did."""
        nothing = ("unsent", "gone", "refused")
        return [
            call
            for call in calls
            if (call.told == "right" and not self.runs[call.number])
            or (call.told in nothing and self.runs[call.number])
            or call.told == "wrong"
        ]


def _heard(surface: str, answer: Answer) -> tuple[Any, str]:
    """Return the value, and the words of the failure where it failed."""
    message = json.loads(answer.body)
    if "error" in message:
        return None, str(message["error"]["message"]) or "no words"
    form: Any = {MODERN: "modern", LEGACY[0]: "legacy"}.get(surface, "rest")
    called = Called(form, answer.status, answer.headers, answer.body.decode())
    return (None, called.message) if called.failed else (called.value, "")
