"""Mutants: files of the gateway with one change each."""

from __future__ import annotations

import ast
import json
import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from lab.mutate.changes import Change, changes_of

_WEIGHTS: Final = {
    "comparison": 2.2,
    "and or": 1.6,
    "constant": 1.4,
    "if": 2.4,
    "statement": 2.4,
    "swap": 0.3,
    "default": 0.4,
    "text": 0.4,
    "arithmetic": 1.2,
    "in place": 1.0,
    "lock": 1.5,
    "shield": 2.0,
    "attribute": 1.6,
    "loop": 0.6,
    "min max": 0.8,
    "branches": 1.2,
    "filter": 1.4,
    "unpacking": 0.5,
    "not": 1.0,
    "raise": 1.8,
    "return": 0.8,
    "finally": 1.5,
}
"""How often a kind is chosen: those more often whose survivors said something."""
_MOST_OF_A_FILE: Final = 16


class Misfit(Exception):
    """A mutant was made of another text than the file has now."""


@dataclass(frozen=True)
class Mutant:
    """A change of one file: the bytes from ``start`` to ``end`` become ``new``. ``text`` is the line, stripped."""

    number: int
    file: str
    line: int
    start: int
    end: int
    new: str
    kind: str
    note: str
    function: str
    text: str

    @classmethod
    def of(cls, number: int, file: str, change: Change, source: str) -> Self:
        text = source.split("\n")[change.line - 1].strip()
        return cls(number, file, change.line, *change.span, change.new, change.kind, change.note, change.function, text)

    @classmethod
    def read(cls, row: dict[str, Any]) -> Self:
        """Return the mutant that :attr:`row` wrote, or one of a file of before, whose names were others."""
        former = {"number": "id", "kind": "op", "function": "func"}
        return cls(*(row[name] if name in row else row[former[name]] for name in cls.__dataclass_fields__))

    @property
    def row(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def first_line(self, source: bytes) -> int:
        """Return the line on which the change begins; of an ``if``, ``line`` is where its condition stands."""
        return source.count(b"\n", 0, self.start) + 1

    def applied(self, source: bytes) -> bytes:
        """Return the file with the change. Raises :class:`Misfit`."""
        lines = source.decode().split("\n")
        text = lines[self.line - 1].strip() if self.line <= len(lines) else None
        if text != self.text or not self.start < self.end <= len(source):
            raise Misfit(f"{self.place} was {self.text!r} and is {text!r}")
        changed = source[: self.start] + self.new.encode() + source[self.end :]
        if not _is_python(changed):
            raise Misfit(f"{self.place} is no Python any more with {self.new!r}")
        return changed


def _is_python(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def candidates(root: Path, files: Iterable[str]) -> list[Mutant]:
    """Return each mutant that can be made of the files, which are relative to ``root``."""
    found = []
    for file in files:
        source = (root / file).read_text()
        found += [Mutant.of(0, file, change, source) for change in changes_of(source)]
    return found


def chosen(root: Path, pool: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """Return at most so many of them: one of a line, not too many of a file, kinds by their weight."""
    draw = random.Random(seed)
    of_kind: dict[str, list[Mutant]] = {}
    for mutant in pool:
        of_kind.setdefault(mutant.kind, []).append(mutant)
    for members in of_kind.values():
        draw.shuffle(members)
    lines: set[str] = set()
    of_file: dict[str, int] = {}
    found: list[Mutant] = []
    while of_kind and len(found) < most:
        kinds = sorted(of_kind)
        kind = draw.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
        mutant = of_kind[kind].pop()
        if not of_kind[kind]:
            del of_kind[kind]
        is_one_of_many = of_file.get(mutant.file, 0) >= _MOST_OF_A_FILE
        if mutant.place in lines or is_one_of_many or not _fits(root, mutant):
            continue
        lines.add(mutant.place)
        of_file[mutant.file] = of_file.get(mutant.file, 0) + 1
        found.append(Mutant(len(found) + 1, *list(mutant.row.values())[1:]))
    return found


def _fits(root: Path, mutant: Mutant) -> bool:
    """Say whether it is Python, and other than the file."""
    source = (root / mutant.file).read_bytes()
    try:
        return mutant.applied(source) != source
    except Misfit:
        return False


def replayed(root: Path, path: Path, *verdicts: str) -> list[Mutant]:
    """Return the mutants of a file: a JSON list of them, or the results of a run, of which ``verdicts`` choose.

    Raises :class:`Misfit` for the first that was made of another text.
    """
    written = path.read_text()
    rows = json.loads(written) if written.startswith("[") else [json.loads(row) for row in written.splitlines()]
    found = [
        Mutant.read(row.get("mutant", row)) for row in rows if not verdicts or row.get("verdict", "") in ("", *verdicts)
    ]
    for mutant in found:
        mutant.applied((root / mutant.file).read_bytes())
    return found


@contextmanager
def written(root: Path, mutant: Mutant) -> Iterator[None]:
    """Keep the change in its file meanwhile.

    Each mutant gives the file a time of its own, which Python's compiled files name: none of another mutant is taken.
    """
    path = root / mutant.file
    source, before = path.read_bytes(), path.stat()
    path.write_bytes(mutant.applied(source))
    moment = (1_000_000 + mutant.number) * 10**9
    os.utime(path, ns=(moment, moment))
    try:
        yield
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
