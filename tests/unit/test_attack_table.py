"""docs/security.md says of each row of H and CP what client and service see, and names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.each import each

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (H\d\d|CP\d) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "security.md").read_text(encoding="utf-8"))


@cache
def named_in(file: str) -> frozenset[str]:
    """The names of a file's tests."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def test_the_table_has_every_row_once_and_in_order() -> None:
    expected = [f"H{number:02}" for number in range(1, 38)] + [f"CP{number}" for number in range(1, 8)]
    assert [row[0] for row in ROWS] == expected


@each("row", ROWS)
def test_a_row_says_what_comes_and_what_both_sides_see(row: tuple[str, ...]) -> None:
    assert all(cell.strip() for cell in row)


@each("row", ROWS)
def test_the_tests_of_a_row_exist(row: tuple[str, ...]) -> None:
    for named in row[4].strip().split("; "):
        file, _, test = named.partition("::")
        assert test in named_in(file), f"{row[0]}: no {test} in tests/{file}"
