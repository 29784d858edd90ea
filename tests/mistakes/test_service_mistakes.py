"""A mistake with the service is told with its remedy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.each import each
from tests.mistakes.mistake import Told
from tests.mistakes.reading import read_rows
from tests.mistakes.row import Row
from tests.mistakes.telling import tell
from tests.troubleshooting.places import started

ROWS = read_rows(Path(__file__).with_name("service.yaml"), Row)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    with started(tmp_path_factory.mktemp("places")) as places:
        return asyncio.run(tell(ROWS, places.names()))


@each("row", ROWS, ids=lambda row: row.name)
def test_a_mistake_with_the_service_is_told(told: dict[str, Told], row: Row) -> None:
    row.judge(told[row.name])


def test_there_are_at_least_20() -> None:
    assert len(ROWS) >= 20
