"""Who mistypes a command line is told what is wrong and what to type."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.each import each
from tests.mistakes.command_line import ROWS
from tests.mistakes.entry_point import told
from tests.mistakes.mistake import Told
from tests.mistakes.row import Row
from tests.services import launch


@pytest.fixture(scope="module")
def printed() -> Mapping[str, tuple[Row, Told]]:
    with launch.openrpc_app() as service:
        rows = [row.at(service.url, service.port) for row in ROWS]
        came = told(rows)
    return {row.mistake.name: (row, came[row.mistake.name]) for row in rows}


@each("name", [row.mistake.name for row in ROWS])
def test_a_mistake_on_the_command_line_is_told_with_its_remedy(
    printed: Mapping[str, tuple[Row, Told]], name: str
) -> None:
    row, came = printed[name]
    row.mistake.judge(came)


def test_there_are_at_least_25_mistakes_of_different_names() -> None:
    assert len({row.mistake.name for row in ROWS}) == len(ROWS) >= 25
