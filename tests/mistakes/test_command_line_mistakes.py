"""Who mistypes a command line is told what is wrong and what to type."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.each import each
from tests.mistakes.mistake import Told
from tests.mistakes.reading import read_rows
from tests.mistakes.row import Row
from tests.mistakes.telling import tell
from tests.services import launch

ROWS = read_rows(Path(__file__).with_name("command_line.yaml"), Row)


@pytest.fixture(scope="module")
def told() -> Mapping[str, Told]:
    with launch.openrpc_app() as service:
        return asyncio.run(tell(ROWS, {"<service>": service.url, "<port>": str(service.port)}))


@each("row", ROWS, ids=lambda row: row.name)
def test_a_mistake_on_the_command_line_is_told_with_its_remedy(told: Mapping[str, Told], row: Row) -> None:
    row.judge(told[row.name])


def test_there_are_at_least_25_mistakes() -> None:
    assert len(ROWS) >= 25
