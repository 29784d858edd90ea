"""The table of docs/security.md: which tests hold the gateway to which row. Run as a module, writes its last column."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
ROWS: Final = [f"J{number:02}" for number in range(1, 49)]
_TEST: Final = re.compile(r"test_(J\d+)_(\w+)")
_ROW: Final = re.compile(r"^\| (J\d+) \|(.*)\|([^|]*)\|$", re.MULTILINE)


class Row(NamedTuple):
    """``tests`` are the sentences of the last column."""

    id: str
    tests: list[str]


def rows(text: str) -> list[Row]:
    """The table's rows in their order."""
    return [Row(id, [test for test in tests.strip().split("; ") if test]) for id, _, tests in _ROW.findall(text)]


@cache
def sentences() -> dict[str, list[str]]:
    """What tests with a row's id in their name say, by id, in the order of files and lines."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for id, sentence in _named(path):
            found.setdefault(id, []).append(sentence)
    return found


def _named(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match = _TEST.fullmatch(node.name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
        if match is not None:
            yield match[1], match[2].replace("_", " ")


def written(text: str) -> str:
    """The page with the column as the tests are."""
    found = sentences()
    return _ROW.sub(lambda row: f"| {row[1]} |{row[2]}| {'; '.join(found.get(row[1], []))} |", text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
