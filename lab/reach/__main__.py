"""Measure real services, print the table, and write it into docs/reach.md.

If a target is missed, nothing is written, and the exit code is 1.

``python -m lab.reach [PART OF A SERVICE'S NAME ...]`` measures some, and leaves the page as it is.
``python -m lab.reach --sizes [PART ...]`` prints how much of each listing models are shown.
``python -m lab.reach --mistakes`` prints cause and next step of each first contact that fails.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.telemetry import logs
from lab.reach.measure import Measured, measure
from lab.reach.rows import Row
from lab.reach.sizes import measured_sizes
from lab.reach.socket_rows import ALL
from lab.reach.table import missed, table, with_table
from tests.mistakes.contact.table import faults, judged
from tests.services.process import ServiceFailed, ServiceMissing

PAGE: Final = Path(__file__).parents[2] / "docs" / "reach.md"


async def measured(row: Row) -> Measured:
    """Return what a service came to, also where it is missing or does not start."""
    try:
        return await measure(row)
    except (ServiceMissing, ServiceFailed, TimeoutError) as error:
        return Measured(row.service, "?", "no", faults=(str(error) or "it took too long",))


def written(rows: Sequence[Measured], page: Path) -> int:
    """Write the table into the page where all targets are met, and say each that is missed. Return the exit code."""
    targets = list(missed(rows))
    for target in targets:
        print(f"missed: {target}")
    if not targets:
        page.write_text(with_table(page.read_text(), table(rows)))
    return 1 if targets else 0


def mistakes() -> int:
    """Print what each first contact is told, and the targets that are missed."""
    verdicts = asyncio.run(judged())
    for verdict in verdicts:
        said = [
            line for line in verdict.told.text.splitlines() if line.startswith(("cause", "next", "  backend", "Error"))
        ]
        print("\n  ".join([f"{verdict.word:8} {verdict.row.name}", *said]))
    print(", ".join(f"{count} {word}" for word, count in Counter(one.word for one in verdicts).most_common()))
    missed_targets = faults(verdicts)
    print("\n".join(missed_targets), end="")
    return 1 if missed_targets else 0


def main(parts: list[str]) -> int:
    logs.configure("error")
    if parts == ["--mistakes"]:
        return mistakes()
    sized, parts = parts[:1] == ["--sizes"], [part for part in parts if part != "--sizes"]
    chosen = [row for row in ALL if not parts or any(part in row.service for part in parts)]
    if sized:
        print(*(asyncio.run(measured_sizes(row)) for row in chosen), sep="\n")
        return 0
    rows = []
    for row in chosen:
        rows.append(asyncio.run(measured(row)))
        print(f"{row.service}: {rows[-1].kind}", file=sys.stderr)
        for fault in rows[-1].faults:
            print(f"  {fault[:600]}", file=sys.stderr)
    print(table(rows))
    if parts:
        return 0 if all(row.made and row.right == row.made for row in rows) else 1
    return written(rows, PAGE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
