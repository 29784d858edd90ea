"""All rows of first contact, and what `check` said of them: ``python -m lab.reach --mistakes`` prints it."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.mistakes.commands import run_all
from tests.mistakes.contact import addresses, in_front, other_protocols, unread, unread_wires
from tests.mistakes.contact.row import Contact
from tests.mistakes.contact.stand_ins import standing
from tests.mistakes.mistake import Told
from tests.tls import Authority

ROWS: Final[tuple[Contact, ...]] = (
    *other_protocols.ROWS, *in_front.ROWS, *addresses.ROWS, *unread.ROWS, *unread_wires.ROWS
)  # fmt: skip
PAGE: Final = Path(__file__).parents[3] / "docs" / "first-contact.md"
MOST_MISLEAD: Final = 4
LEAST_REMEDIES: Final = 85
"""Of 100 rows."""


class Verdict(NamedTuple):
    """Hold a row, what it was told, and whether that has the remedy, only names the thing, or misleads."""

    row: Contact
    told: Told
    word: str


async def judged(rows: tuple[Contact, ...] = ROWS) -> list[Verdict]:
    """Make each first contact once."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        authority = Authority(Path(folder))
        hosts = {
            row.name: f"127.0.0.1:{await stack.enter_async_context(standing(row.stand_in, authority))}" for row in rows
        }
        told = await run_all({row.name: row.command(hosts[row.name], folder) for row in rows})
    return [Verdict(row, told[row.name], row.verdict(told[row.name], hosts[row.name])) for row in rows]


def faults(verdicts: list[Verdict]) -> list[str]:
    """Return which target is missed: at most 4 % mislead, at least 85 % name the remedy."""
    words = Counter(verdict.word for verdict in verdicts)
    missed = []
    if words["misleads"] * 100 > MOST_MISLEAD * len(verdicts):
        missed.append(f"{words['misleads']} of {len(verdicts)} mislead, at most {MOST_MISLEAD} %")
    if words["remedy"] * 100 < LEAST_REMEDIES * len(verdicts):
        missed.append(f"{words['remedy']} of {len(verdicts)} name the remedy, at least {LEAST_REMEDIES} %")
    return missed
