"""A table of YAML reaches its test whole, and a row that does not fit it is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gateway.config.strict_yaml import read_yaml
from gateway.model import Parameter, Structure
from tests.each import each
from tests.tables import NotARow, each_row

TESTS = Path(__file__).parents[1]
TEST = """
from __future__ import annotations
from gateway.model import Parameter, Structure

def test_a(fixture, structure: Structure, most: int, note: str, parameter: Parameter) -> None:
    fixture.append((structure, most, note, parameter))
    assert most < 3
"""


def table(folder: Path, text: str) -> Callable[..., Any]:
    """Return the test of ``TEST`` on the rows of a YAML file beside it."""
    path = folder / f"test_{len([*folder.iterdir()])}.py"  # a file is read once
    path.with_suffix(".yaml").write_text(dedent(text))
    names: dict[str, Any] = {}
    exec(compile(TEST, path, "exec"), names)
    return each_row(names["test_a"])


def test_rows_have_the_types_of_the_arguments_and_the_one_that_fails_is_named(tmp_path: Path) -> None:
    runs = table(
        tmp_path,
        """
        a:
          every row: {structure: by-name, note: none, parameter: {name: a}}
          few: {most: 2}
          many: {structure: either, most: 3, note: x}
        """,
    )
    seen: list[Any] = []
    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows fail: 1 many"):
        runs(fixture=seen)
    assert seen == [(Structure.BY_NAME, 2, "none", Parameter("a")), (Structure.EITHER, 3, "x", Parameter("a"))]


@each(
    ("text", "fault"),
    {
        "no section": ("b: {}", "a: must have rows"),
        "a row that is no mapping": ("a: {few: 2}", "a: must have rows"),
        "a misspelled key": ("a: {few: {mots: 2}}", "a: few: the test has no argument mots"),
        "a missing key": (
            "a: {one: {most: 2, note: x}, few: {note: x}}",
            "a: few: lacks most",
        ),
        "a misspelled field": ("a: {few: {parameter: {name: a, requierd: true}}}", "a: few: there is no requierd"),
        "another type": ("a: {few: {most: two}}", "a: few: Expected `int`, got `str`"),
        "a misspelled key of every row": ("a: {every row: {mots: 2}, few: {most: 2}}", "a: every row: the test has no"),
        "a value that is none": ("a: {few: {structure: by-banana}}", "a: few: Invalid enum value 'by-banana'"),
    },
)
def test_a_row_that_does_not_fit_is_told_with_its_file_and_name(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(NotARow, match=rf"^test_\d+\.yaml: {re.escape(fault)}"):
        table(tmp_path, text)


def test_every_section_of_every_table_is_run() -> None:
    files = [*TESTS.glob("*/test_*.yaml")]
    assert files
    for path in files:
        text = path.with_suffix(".py").read_text()
        tests = re.findall(r"^@each_row[^@]*?^(?:async )?def test_(\w+)\(", text, re.MULTILINE)
        assert sorted(tests) == sorted(read_yaml(path.read_text(), path.name)), path.name
