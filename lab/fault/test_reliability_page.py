"""docs/reliability.md names the tests and rows that hold each promise, and they exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.fault.__main__ import ROWS, all_rows

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
PROMISES: Final = re.findall(
    r"^\| (?!promise|-|column|held|worst|p99|wrong|twice|lost|late|recovery)(.*?) \| (.*) \|$", PAGE, re.MULTILINE
)
TEST: Final = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
COMMAND: Final = re.compile(r"`make (fault|soak|deploy-test)`")
ROW: Final = re.compile(r'"([^"]+)"')


def names_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows_named() -> Iterator[str]:
    for _, held_by in PROMISES:
        yield from ROW.findall(held_by.partition("`make fault`: ")[2])


def test_every_promise_is_held_by_something() -> None:
    assert len(PROMISES) > 30
    for promise, held_by in PROMISES:
        assert TEST.search(held_by) or COMMAND.search(held_by), promise


def test_every_test_that_is_named_exists() -> None:
    named = TEST.findall(PAGE)
    assert len(named) == PAGE.count(".py::") > 30
    assert [name for name in named if name[1] not in names_in(ROOT / "tests" / name[0])] == []


def test_every_row_that_is_named_exists_and_every_row_is_named() -> None:
    named = set(rows_named())
    assert named <= set(all_rows())
    assert set(ROWS) <= named
