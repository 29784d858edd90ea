"""The official clients, in every era that they speak, do with the gateway what they do with any MCP server."""

from __future__ import annotations

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

CELLS = [
    pytest.param(row, capability, id=f"{row.name.replace(' ', '-')}-{capability}")
    for row in ROWS
    for capability in CAPABILITIES
    if capability not in row.without
]


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


@pytest.mark.parametrize(("row", "capability"), CELLS)
async def test_a_client_does_with_the_gateway_what_it_can(
    row: Row, capability: str, world: World, drivers: dict[str, Driver]
) -> None:
    await check(capability, row, drivers[row.name], world)
