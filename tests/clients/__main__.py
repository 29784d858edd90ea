"""Prints the table of clients, eras and capabilities; the exit code is 1 where a cell fails.

``python -m tests.clients [PART OF A CLIENT'S NAME ...]``
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from tests.clients.cells import check
from tests.clients.driver import Driver, Failed
from tests.clients.environments import ClientMissing
from tests.clients.rows import CAPABILITIES, ROWS, Row
from tests.clients.world import World, world

Failures: TypeAlias = Mapping[tuple[str, str], Failed]
"""By the row's name and the capability."""

_AT_A_TIME: Final = 3


async def failures(rows: Sequence[Row]) -> Failures:
    """Fill the table. Raises :class:`ClientMissing`."""
    found: dict[tuple[str, str], Failed] = {}
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def fill(row: Row, world: World) -> None:
        async with turns:
            driver = Driver(row, world.scratch)
            try:
                for capability in CAPABILITIES:
                    if capability not in row.without:
                        try:
                            await check(capability, row, driver, world)
                        except Failed as failure:
                            found[row.name, capability] = failure
            finally:
                await driver.kill()

    for row in rows:  # in turn, since rows share environments
        await asyncio.to_thread(row.command)
    async with world() as surroundings, asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(fill(row, surroundings))
    return found


def table(rows: Sequence[Row], failures: Failures) -> str:
    """The table, and under it why cells have a dash."""
    lines = [_line("client", "era", *CAPABILITIES)]
    reasons: dict[str, int] = {}
    for row in rows:
        cells = []
        for capability in CAPABILITIES:
            reason = row.without.get(capability)
            if reason is None:
                cells.append("FAIL" if (row.name, capability) in failures else "ok")
            else:
                cells.append(f"- ({reasons.setdefault(reason, len(reasons) + 1)})")
        lines.append(_line(row.client, row.era, *cells))
    legend = [f"({number}) {reason}" for reason, number in reasons.items()]
    return "\n".join([*lines, *([""] if legend else []), *legend])


def _line(client: str, era: str, *cells: str) -> str:
    return f"{client:<20}{era:<12}" + "".join(f"{cell:<8}" for cell in cells).rstrip()


def main(parts: Sequence[str]) -> int:
    rows = [row for row in ROWS if not parts or any(part in row.client for part in parts)]
    if not rows:
        print(
            f"no client is called that; there are: {', '.join(sorted({row.client for row in ROWS}))}", file=sys.stderr
        )
        return 1
    started = time.monotonic()
    try:
        failed = asyncio.run(failures(rows))
    except ClientMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(table(rows, failed))
    print(f"\n{time.monotonic() - started:.0f} s")
    for failure in failed.values():
        print(f"\n=== {failure}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
