"""Measure each row of docs/tuning.md and write its table: ``python -m lab.tuning``, about three minutes.

``python -m lab.tuning limits`` measures the rows whose knob has this word, prints them, and writes nothing. All of it
stays on loopback. Rows are measured one after the other, since they share the machine.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from lab.tuning.rows import ROWS, Row
from lab.tuning.table import PAGE, table, with_table


async def measured(rows: Sequence[Row]) -> list[tuple[Row, list[str]]]:
    """Measure each row with each of its values."""
    found = []
    for row in rows:
        figures = [await row.measure(value) for value in row.values]
        print(f"{row.knob:36} {'   '.join(map(': '.join, zip(row.values, figures, strict=True)))}", flush=True)
        found.append((row, figures))
    return found


def main(words: Sequence[str]) -> None:
    rows = [row for row in ROWS if not words or any(word in row.knob for word in words)]
    text = table(asyncio.run(measured(rows)))
    if not words:
        PAGE.write_text(with_table(PAGE.read_text(), text))


if __name__ == "__main__":
    main(sys.argv[1:])
