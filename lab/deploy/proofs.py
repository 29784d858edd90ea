"""What was proved, line by line as it comes, and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.deploy.load import Call, Load
from tests.authorization.stand import CALLS, MODERN
from tests.protocol.official import LEGACY

_NAMES = {MODERN: "/mcp of 2026-07-28", LEGACY[0]: "/mcp of 2025-11-25", "rest": "REST", "tool": "a tool's own path"}
_SHOWN = 5


@dataclass
class Proofs:
    """``missed`` are those that do not hold."""

    count: int = 0
    missed: list[str] = field(default_factory=list)

    def head(self, words: str) -> None:
        print(f"\n{words}", flush=True)

    def prove(self, what: str, found: object, holds: object) -> None:
        """Print a line: what was asked, and what was found."""
        self.count += 1
        if not holds:
            self.missed.append(what)
        print(f"  {'ok' if holds else 'MISSED':<7}{what}: {found}", flush=True)

    def none(self, what: str, found: Sequence[object]) -> None:
        """Print how many there are, which must be none, and the first of them."""
        self.prove(what, len(found), not found)
        for one in found[:_SHOWN]:
            print(f"           {one}", flush=True)

    def surfaces(self, calls: Sequence[Call]) -> None:
        counts = Counter(call.surface for call in calls)
        found = ", ".join(f"{_NAMES.get(surface, '/' + surface)} {counts[surface]}" for surface in CALLS)
        self.prove("calls on each surface, in both eras", found, all(counts[surface] for surface in CALLS))

    def honest(self, load: Load, calls: Sequence[Call]) -> None:
        """Prove what holds whatever fails: no call runs twice, and no answer lies."""
        self.none("refused with 429", [call for call in calls if call.told == "refused"])
        self.none("calls that reached a service twice", load.twice(calls))
        self.none('wrong results, and "not sent" of a call that ran', load.lies(calls))
