"""A row that is not understood is named, with its file and section."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.each import each
from tests.mistakes.reading import NotUnderstood, read_rows
from tests.mistakes.row import Row

GOOD = {"mistake": "a port", "command": "serve", "thing": "port", "remedy": "server.port", "code": "2"}


def table(*rows: dict[str, str]) -> str:
    """Return a file with these rows."""
    return "options:\n  rows:\n" + "".join(
        f"    - {{{', '.join(f'{key}: {value}' for key, value in row.items())}}}\n" for row in rows
    )


@each(
    "text, told",
    [
        (table(GOOD | {"remdy": "server.port"}), "table.yaml: options: a port: Object contains unknown field `remdy`"),
        (table({"mistake": "a port", "command": "serve"}), "table.yaml: options: a port: Object missing required"),
        (table(GOOD | {"thing": "[port]"}), "table.yaml: options: a port: Expected `str`, got `array` - at `$.thing`"),
        (
            table(GOOD | {"there": "{pgae: {title: Shop}}"}),
            "a port: there is no stand-in 'pgae'; there are reply, page",
        ),
        (
            table(GOOD | {"there": "{page: {titel: Shop}}"}),
            "a port: _html() got an unexpected keyword argument 'titel'",
        ),
        (table(GOOD | {"there": "{at: {pages: {/: nobody}}}"}), "a port: there is no stand-in 'nobody'"),
        (table(GOOD, GOOD), "table.yaml: options: a port: occurs twice"),
        ("options: {rows: [], al: {}}", "table.yaml: options: must have rows"),
    ],
)
def test_a_row_that_is_not_understood_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(text)
    with pytest.raises(NotUnderstood) as error:
        read_rows(path, Row)
    assert told in str(error.value)
