"""A mistake with the store, with ``stdio`` or with a client's entry is told with its remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import each
from tests.mistakes.mistake import Told
from tests.mistakes.reading import read_sections
from tests.mistakes.row import Row
from tests.mistakes.stores import redis_kinds
from tests.mistakes.telling import tell
from tests.troubleshooting.places import started

SECTIONS = read_sections(Path(__file__).with_name("store_stdio_connect.yaml"), Row)
ROWS = [row for rows in SECTIONS.values() for row in rows]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("places")
    with started(folder) as places, redis_kinds(folder) as kinds:
        yield {**places.names(), **kinds}


@pytest.fixture
def told(there: dict[str, str], request: pytest.FixtureRequest) -> dict[str, Told]:
    """Return what the rows of one section came to."""
    return asyncio.run(tell(SECTIONS[request.param], there))


@pytest.mark.parametrize("told", ["store"], indirect=True)
@each("row", SECTIONS["store"], ids=lambda row: row.name)
def test_a_mistake_with_the_store_is_told(told: dict[str, Told], row: Row) -> None:
    row.judge(told[row.name])


@pytest.mark.parametrize("told", ["stdio"], indirect=True)
@each("row", SECTIONS["stdio"], ids=lambda row: row.name)
def test_a_mistake_with_stdio_is_told(told: dict[str, Told], row: Row) -> None:
    row.judge(told[row.name])


@pytest.mark.parametrize("told", ["connect"], indirect=True)
@each("row", SECTIONS["connect"], ids=lambda row: row.name)
def test_a_mistake_with_connect_is_told(told: dict[str, Told], row: Row) -> None:
    row.judge(told[row.name])


def test_there_are_at_least_20() -> None:
    assert len(ROWS) >= 20
