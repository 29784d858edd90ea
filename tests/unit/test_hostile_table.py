"""docs/security.md says of each way a listing or a page may do harm which tests answer it, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.each import each

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (S\d\d|P\d+) \|.*\| ([\w/]+\.py)(?:::(\w+))? \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "security.md").read_text(encoding="utf-8"))


def test_the_table_has_every_row_once_and_in_order() -> None:
    assert [row for row, _, _ in ROWS] == [*(f"S{n:02}" for n in range(1, 24)), *(f"P{n}" for n in range(1, 11))]


@each(("row", "file", "test"), ROWS, ids=[row for row, _, _ in ROWS])
def test_the_tests_of_a_row_exist(row: str, file: str, test: str) -> None:
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert f"def {test or 'test_'}" in text, f"{row}: no {test} in tests/{file}"
