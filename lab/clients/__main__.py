"""Prints the tables of clients and of agent frameworks; the exit code is 1 where a cell fails.

``python -m lab.clients [PART OF A CLIENT'S NAME ...]``
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, TypeAlias

from lab.clients import framework_cells
from lab.clients.frameworks import FRAMEWORKS, LEGEND, Framework
from lab.clients.world import with_large_listings
from tests.clients.cells import check
from tests.clients.driver import Driver, Failed
from tests.clients.environments import ClientMissing
from tests.clients.rows import ROWS, Row
from tests.clients.world import World, world
from tests.services.process import ServiceMissing

Cells: TypeAlias = dict[tuple[str, str], str | Failed]
"""What stands in each cell, or why it fails; by the row's name and the capability."""

_AT_A_TIME: Final = 3


async def cells(rows: Sequence[Row]) -> Cells:
    """Fill the tables. Raises :class:`ClientMissing` and :class:`ServiceMissing`."""
    found: Cells = {}
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def fill(row: Row, world: World) -> None:
        async with turns:
            driver = Driver(row, world.scratch)
            try:
                for capability in row.capabilities:
                    if capability not in row.without:
                        try:
                            found[row.name, capability] = await _word(capability, row, driver, world)
                        except Failed as failure:
                            found[row.name, capability] = failure
            finally:
                await driver.kill()

    async def install(interpreter: Callable[[], str]) -> None:
        async with turns:
            await asyncio.to_thread(interpreter)

    await asyncio.gather(*map(install, {row.interpreter for row in rows}))  # each once: rows share environments
    frameworks = any(isinstance(row, Framework) for row in rows)
    async with AsyncExitStack() as stack:
        surroundings = await stack.enter_async_context(world())
        if frameworks:
            surroundings = await stack.enter_async_context(with_large_listings(surroundings))
        async with asyncio.TaskGroup() as group:
            for row in rows:
                group.create_task(fill(row, surroundings))
    return found


async def _word(capability: str, row: Row, driver: Driver, world: World) -> str:
    if isinstance(row, Framework):
        return await framework_cells.check(capability, row, driver, world)
    await check(capability, row, driver, world)
    return "ok"


def table(rows: Sequence[Row], cells: Cells) -> str:
    """The table, and under it why cells have a dash."""
    lines = [_line("client", "era", *rows[0].capabilities)]
    reasons: dict[str, int] = {}
    for row in rows:
        words = []
        for capability in row.capabilities:
            reason = row.without.get(capability)
            if reason is None:
                word = cells[row.name, capability]
                words.append(word if isinstance(word, str) else "FAIL")
            else:
                words.append(f"- ({reasons.setdefault(reason, len(reasons) + 1)})")
        lines.append(_line(row.client, row.era or row.revision, *words))
    legend = [f"({number}) {reason}" for reason, number in reasons.items()]
    return "\n".join([*lines, *([""] if legend else []), *legend])


def _line(client: str, era: str, *cells: str) -> str:
    return f"{client:<30}{era:<12}" + "".join(f"{cell:<9}" for cell in cells).rstrip()


def main(parts: Sequence[str]) -> int:
    every: tuple[Row, ...] = (*ROWS, *FRAMEWORKS)
    rows = [row for row in every if not parts or any(part in row.client for part in parts)]
    if not rows:
        names = sorted({row.client for row in every})
        print(f"no client is called that; there are: {', '.join(names)}", file=sys.stderr)
        return 1
    started = time.monotonic()
    try:
        found = asyncio.run(cells(rows))
    except (ClientMissing, ServiceMissing) as missing:
        print(missing, file=sys.stderr)
        return 1
    frameworks = [row for row in rows if isinstance(row, Framework)]
    if official := [row for row in rows if row not in frameworks]:
        print(table(official, found), end="\n\n")
    if frameworks:
        print(table(frameworks, found), LEGEND, sep="\n\n", end="\n\n")
    print(f"{time.monotonic() - started:.0f} s")
    failures = [cell for cell in found.values() if isinstance(cell, Failed)]
    for failure in failures:
        print(f"\n=== {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
