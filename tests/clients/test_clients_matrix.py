"""The official clients do with the gateway what they do with any MCP server.

Here each client does something, and each thing is done by one; `make clients` fills the whole table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.clients.cells import check
from tests.clients.driver import Driver
from tests.clients.rows import CAPABILITIES, ROWS, Row
from tests.clients.world import World, world

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # The first test of a client may have to install it.
    pytest.mark.timeout(600),
]


def cells() -> list[tuple[Row, str]]:
    """Return one row of the table for each capability: of a client that had the fewest until then, in a new mode."""
    chosen: list[tuple[Row, str]] = []
    for capability in CAPABILITIES:
        seen = Counter(row.client for row, _ in chosen) + Counter(row.name for row, _ in chosen)
        able = [row for row in ROWS if capability not in row.without]
        chosen.append((min(able, key=lambda row: (seen[row.client], seen[row.name])), capability))
    return chosen


CELLS = cells()


@pytest_asyncio.fixture(scope="module", loop_scope="module", name="world")
async def surroundings() -> AsyncIterator[World]:
    async with world() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drivers(world: World) -> AsyncIterator[dict[str, Driver]]:
    """The program of each row, by the row's name."""
    programs = {row.name: Driver(row, world.scratch) for row in ROWS}
    yield programs
    for program in programs.values():
        await program.kill()


async def test_each_client_is_among_them_and_each_era() -> None:
    assert {row.client for row, _ in CELLS} == {row.client for row in ROWS}
    assert {row.revision for row, _ in CELLS} == {row.revision for row in ROWS}


@pytest.mark.parametrize(
    ("row", "capability"), [pytest.param(*cell, id=f"{cell[0].name.replace(' ', '-')}-{cell[1]}") for cell in CELLS]
)
async def test_a_client_does_with_the_gateway_what_it_can(
    row: Row, capability: str, world: World, drivers: dict[str, Driver]
) -> None:
    await check(capability, row, drivers[row.name], world)
