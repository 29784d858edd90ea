"""Which tests run a line, and which of them are asked of a mutant."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.mutate.mutants import Mutant

_SECONDS_WEIGH: Final = 1500
"""A second of a test is as bad as so many lines: the first tests asked are short and about little else."""
_PHASE: Final = re.compile(r" \((setup|call|teardown)\)$")


@dataclass(eq=False)
class Test:
    """A test that was mapped. ``lines`` has a number for each file, whose bit 7 is line 7."""

    name: str
    seconds: float = 0.0
    is_timed: bool = False
    price: float = 0.0
    lines: dict[str, int] = field(default_factory=dict)

    __test__ = False

    def runs(self, file: str, lines: Collection[int]) -> bool:
        bits = self.lines.get(file, 0)
        return any(bits >> line & 1 for line in lines)

    def add(self, row: dict[str, Any], files: Container[str]) -> None:
        """Add what a process ran. Of a file that is none of ``files`` only the number of lines counts."""
        if "seconds" in row:
            self.seconds, self.is_timed = row["seconds"], True
            self.price += _SECONDS_WEIGH * self.seconds
        for file, written in row["lines"].items():
            bits = int(written, 16)
            self.price += bits.bit_count()
            if file in files:
                self.lines[file] = self.lines.get(file, 0) | bits


@dataclass(frozen=True)
class Asked:
    """The tests that a mutant is tried with, in their order, and all that reach it. ``how`` is "line", or "function"
    or "file" where no test runs the line itself. With ``on_import`` the line runs before any test, too."""

    mutant: Mutant
    how: str
    tests: list[str]
    reaching: list[str]
    on_import: bool

    @property
    def row(self) -> dict[str, Any]:
        return {**self.__dict__, "mutant": self.mutant.row}


class Map:
    """What each test ran."""

    def __init__(self, path: Path, files: Container[str]) -> None:
        """Read what :func:`fold` wrote, as far as these files are concerned."""
        tests: dict[str, Test] = {}
        with path.open() as rows:
            next(rows)  # what it was made of
            for written in rows:
                row = json.loads(written)
                tests.setdefault(row["test"], Test(row["test"])).add(row, files)
        self._on_import = tests.pop("", Test(""))
        # A test of the tests has tests of its own.
        self.tests = [test for test in tests.values() if test.is_timed]

    def asked(self, root: Path, mutant: Mutant, most_seconds: float) -> Asked:
        """Return which tests to ask: what runs the line, else its function, else its file; the cheapest first, up to
        a time together. What a line did on import reaches each test of its file: these come after those that run it."""
        source = (root / mutant.file).read_bytes()
        line = mutant.first_line(source)
        on_import = self._on_import.runs(mutant.file, [line])
        of_file = [test for test in self.tests if mutant.file in test.lines]
        body = _function(source, line)
        how, tests = "line", _cheapest(test for test in of_file if line in body and test.runs(mutant.file, [line]))
        if not tests:
            how, tests = "function", _cheapest(test for test in of_file if test.runs(mutant.file, body))
        if not tests:
            how, tests = "file", _cheapest(of_file)
        elif on_import:
            tests += _cheapest(set(of_file) - set(tests))
        taken: list[Test] = []
        seconds = 0.0
        for test in tests:
            seconds += test.seconds
            if taken and seconds > most_seconds:
                break
            taken.append(test)
        return Asked(mutant, how, _by_file(taken), [test.name for test in tests], on_import)


def _cheapest(tests: Iterable[Test]) -> list[Test]:
    return sorted(tests, key=lambda test: test.price)


def _function(source: bytes, line: int) -> range:
    """Return the lines of the innermost function around one. A default stands before them, and runs on import, which
    may be within any test."""
    functions = (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    around = [one for one in functions if one.lineno <= line <= (one.end_lineno or one.lineno)]
    if not around:
        return range(0)
    inner = max(around, key=lambda one: one.lineno)
    return range(inner.body[0].lineno, (inner.end_lineno or inner.lineno) + 1)


def _by_file(tests: list[Test]) -> list[str]:
    """Return their names, those of one file together: a module's fixtures are made once."""
    of_file: dict[str, list[str]] = {}
    for test in tests:
        of_file.setdefault(test.name.partition("::")[0], []).append(test.name)
    return [name for names in of_file.values() for name in names]


def fold(records: Path, header: dict[str, Any], path: Path) -> None:
    """Write one file of what the processes of a run wrote, each a file: the header, then the rows of tests."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("w") as file:
        file.write(json.dumps(header) + "\n")
        for written in sorted(records.iterdir()):
            if written.suffix == ".jsonl":
                file.write(written.read_text())
            else:
                file.write(json.dumps(_of_child(written)) + "\n")
    unfinished.rename(path)


def _of_child(written: Path) -> dict[str, Any]:
    """Return the row of a process that a test started."""
    test, *rows = written.read_text().split("\n")
    bits: dict[str, int] = {}
    for row in filter(None, rows):
        file, _, line = row.rpartition(":")
        bits[file] = bits.get(file, 0) | 1 << int(line)
    return {"test": _PHASE.sub("", test), "lines": {file: f"{one:x}" for file, one in bits.items()}}
