"""All rows of first contact, and what `check` said of them: ``python -m lab.reach --mistakes`` prints it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from tests.mistakes.contact.row import Contact
from tests.mistakes.mistake import Told
from tests.mistakes.reading import read_rows
from tests.mistakes.telling import tell

FILES: Final = (
    ("other_protocols",), ("in_front",), ("addresses",), ("unread", "unread_between"), ("unread_wires",),
)  # fmt: skip
TABLES: Final[dict[str, tuple[Contact, ...]]] = {
    files[0]: tuple(row for file in files for row in read_rows(Path(__file__).with_name(f"{file}.yaml"), Contact))
    for files in FILES
}
ROWS: Final[tuple[Contact, ...]] = tuple(row for rows in TABLES.values() for row in rows)
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
    told = await tell(rows)
    return [Verdict(row, told[row.name], row.verdict(told[row.name])) for row in rows]


def faults(verdicts: list[Verdict]) -> list[str]:
    """Return which target is missed: at most 4 % mislead, at least 85 % name the remedy."""
    words = Counter(verdict.word for verdict in verdicts)
    missed = []
    if words["misleads"] * 100 > MOST_MISLEAD * len(verdicts):
        missed.append(f"{words['misleads']} of {len(verdicts)} mislead, at most {MOST_MISLEAD} %")
    if words["remedy"] * 100 < LEAST_REMEDIES * len(verdicts):
        missed.append(f"{words['remedy']} of {len(verdicts)} name the remedy, at least {LEAST_REMEDIES} %")
    return missed
