"""What ``make bench`` has measured already: read from docs/performance.md, so that no figure stands twice by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "performance.md"


def requests_per_second(who: str) -> str:
    """Return the column of a row of the page. Raise ValueError if the page has no such row."""
    row = re.search(rf"^\| {re.escape(who)} \| [^|]+ \| ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    if row is None:
        raise ValueError(f"{PAGE.name} has no row {who}")
    return row[1]


async def workers(value: str) -> str:
    """Return the figure of so many workers."""
    noun = "worker" if value == "1" else "workers"
    return f"{requests_per_second(f'gateway, {value} {noun}, both cores')} calls/s"
