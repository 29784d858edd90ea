"""docs/security.md says of each way a listing, page, key, header or connection may do harm which tests answer it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.each import each

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (S\d\d|[CIKPUW]\d+) \|.*\| ([\w/]+\.py)(?:::(\w+))? \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "security.md").read_text(encoding="utf-8"))


def test_the_table_has_every_row_once_and_in_order() -> None:
    last = {"P": 12, "K": 15, "I": 5, "U": 6, "C": 5, "W": 9}
    others = [f"{letter}{n + 1}" for letter, most in last.items() for n in range(most)]
    assert [row for row, _, _ in ROWS] == [*(f"S{n:02}" for n in range(1, 24)), *others]


@each(("row", "file", "test"), ROWS, ids=[row for row, _, _ in ROWS])
def test_the_tests_of_a_row_exist(row: str, file: str, test: str) -> None:
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert f"def {test or 'test_'}" in text, f"{row}: no {test} in tests/{file}"
