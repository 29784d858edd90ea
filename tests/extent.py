"""How many cases tests go through: by day a part of long tables and series, all of them where the environment says so.

`make fault` runs every test file that imports this with CASES=all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

ALL_CASES: Final = os.environ.get("CASES") == "all"

Case = TypeVar("Case")


def size(every: int, by_day: int) -> int:
    """Return how many there are of something: rounds, lines, examples, streams."""
    return every if ALL_CASES else by_day


def part(cases: Sequence[Case], step: int = 11) -> Sequence[Case]:
    """Return all cases, or each eleventh by day. No factor of a product is a multiple of ``step``: so each value of it
    has its turn."""
    return cases if ALL_CASES else cases[::step]
