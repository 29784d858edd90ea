"""Who ran what, and who was told what: calls with a number each, which the service counts as it runs them.

A call carries its number, and the right answer is a proof that only the service can make of it. So an answer that is
made up, belongs to another call, or says "not sent" or "not run" of a call that ran is found for certain, and so is a
call that ran twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from tests.authorization.stand import MODERN, REST, Answer
from tests.fault.behaviours import Behaviour, Exchange, result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.official import LEGACY

Told: TypeAlias = Literal["right", "unsent", "denied", "failed", "wrong", "lost"]
"""What came of a call: its right answer; that it was not sent, or not run; that the caller may not make it (401, 403);
that it failed, or may have run; an answer that cannot be right; nothing at all."""
_DENIED: Final = (401, 403)
_UNKNOWN: Final = "Unknown tool"
_UNSENT: Final = re.compile("not sent|not run|safe to repeat")

WORK: Final = Rpc("work", {"number": {"type": "string"}, "wait": {"type": "number"}}, {"type": "object"}, "Work")
HANG: Final = Rpc("hang", {"number": {"type": "string"}, "wait": {"type": "number"}}, {"type": "object"}, "Hang")
FILL: Final = Rpc("fill", {"size": {"type": "integer"}}, {"type": "object"}, "Give a large result")
KEEP: Final = Rpc("keep", {"value": {}}, {}, "Take a large value")
METHODS: Final = (WORK, HANG, FILL, KEEP)


def proof_of(number: str) -> dict[str, str]:
    """The result of a call."""
    return {"number": number, "proof": hashlib.blake2b(number.encode(), key=b"ledger", digest_size=8).hexdigest()}


@dataclass
class Ledger:
    """``runs`` counts what the service ran, ``told`` what callers heard, both by number; ``complaints`` say what is
    wrong with an answer, and ``failures`` counts the words of calls that failed."""

    runs: Counter[str] = field(default_factory=Counter)
    told: dict[str, Told] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def number(self) -> str:
        return f"call-{next(self._numbers)}"

    def tell(self, number: str, told: Told, why: object = "") -> Told:
        """Note what a caller heard."""
        self.told[number] = told
        if told in ("wrong", "lost"):
            self.complaints.append(f"{number} {told}: {why}"[:1000])
        elif told != "right":
            self.failures[f"{told}: {why}"[:100]] += 1
        return told

    def count(self, told: Told) -> int:
        return sum(one == told for one in self.told.values())

    @property
    def twice(self) -> list[str]:
        """Calls that ran more than once."""
        return [number for number, times in self.runs.items() if times > 1]

    @property
    def wrong(self) -> list[str]:
        """Calls whose answer is not true: it cannot be theirs, they never ran, or ran although they were "not sent".
        Ask at the end: a call may still run that was not answered in time."""
        lies = {"right": lambda ran: not ran, "unsent": bool, "denied": bool, "wrong": lambda _: True}
        return [number for number, told in self.told.items() if told in lies and lies[told](self.runs[number])]

    @property
    def lost(self) -> list[str]:
        """Calls that got no answer at all."""
        return [number for number, told in self.told.items() if told == "lost"]


@dataclass(frozen=True)
class Work:
    """Run the call that a request names: note it in the ledger, wait as long as it says, and answer with its proof."""

    ledger: Ledger

    async def play(self, exchange: Exchange) -> None:
        params = exchange.request.params
        if "size" in params:
            await result({"fill": "x" * params["size"]}).play(exchange)
            return
        self.ledger.runs[params["number"]] += 1
        if params["wait"]:
            await asyncio.sleep(params["wait"])
        await result(proof_of(params["number"])).play(exchange)


@dataclass(frozen=True)
class Noted:
    """Another behaviour of a service, whose calls count as run all the same."""

    ledger: Ledger
    behaviour: Behaviour

    async def play(self, exchange: Exchange) -> None:
        self.ledger.runs[exchange.request.params["number"]] += 1
        await self.behaviour.play(exchange)


def service(ledger: Ledger) -> ScriptedBackend:
    """A service whose calls are counted."""
    return ScriptedBackend(METHODS, default=Work(ledger))


def read(surface: str, number: str, answer: Answer) -> tuple[Told, str]:
    """What an answer tells the caller of a call, and why it is not the right one."""
    value, failure = outcome_of(surface, answer)
    if answer.status in _DENIED:
        return "denied", failure
    if answer.status == 429 or _UNSENT.search(failure):
        return "unsent", failure
    if failure.startswith(_UNKNOWN):  # the tools that are called are always offered
        return "wrong", failure
    if failure:
        return "failed", failure
    right = value == proof_of(number) and answer.status == 200
    return ("right", "") if right else ("wrong", f"{surface} {answer.status} {answer.body[:300]!r}")


def outcome_of(surface: str, answer: Answer) -> tuple[Any, str]:
    """The value, and the words of the failure where it failed."""
    message = json.loads(answer.body)
    if "error" in message:
        return None, str(message["error"]["message"]) or "no words"
    outcome = message["result"]
    if surface in (MODERN, *LEGACY):
        if outcome["isError"]:
            return None, str(outcome["content"][0]["text"]) or "no words"
        if "structuredContent" in outcome:
            return outcome["structuredContent"], ""
        return json.loads(outcome["content"][0]["text"]), ""  # the first two revisions know no other
    assert surface in (REST, "tool", "jsonrpc"), surface
    return outcome, ""
