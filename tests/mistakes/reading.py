"""Read a table of mistakes, which is YAML: sections by name, and the rows of each.

options:
  all: {command: serve, code: 2}        # what each row of the section has, unless it says something else
  rows:
    - mistake: a negative number
      knobs: {limits.concurrent: "-1"}  # a mapping is laid over that of ``all``; null takes a key out
      thing: limits.concurrent
      remedy: at least 1

The keys are the fields of a kind of mistake: :class:`tests.mistakes.row.Row`, for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gateway.config.strict_yaml import read_yaml
from tests.mistakes.mistake import Mistake

Kind = TypeVar("Kind", bound=Mistake)


class NotUnderstood(ValueError):
    """Raised for a row that cannot be read. The message has its file, section and name."""


def read_sections(path: Path, kind: type[Kind]) -> dict[str, tuple[Kind, ...]]:
    """Return the rows of each section. Raise NotUnderstood, or NotYaml where the file is none."""
    names: set[str] = set()
    sections: dict[str, tuple[Kind, ...]] = {}
    for title, section in read_yaml(path.read_text(encoding="utf-8"), path.name).items():
        if not isinstance(section, dict) or not section.get("rows") or not section.keys() <= {"all", "rows"}:
            raise NotUnderstood(f"{path.name}: {title}: must have rows, and may have all")
        rows = []
        for row in section["rows"]:
            where = f"{path.name}: {title}: {row.get('mistake', row) if isinstance(row, dict) else row}"
            try:
                rows.append(msgspec.convert(_over(section.get("all", {}), row), kind))
            except (msgspec.ValidationError, TypeError) as error:
                raise NotUnderstood(f"{where}: {error}") from None
            if rows[-1].name in names:
                raise NotUnderstood(f"{where}: occurs twice")
            names.add(rows[-1].name)
        sections[title] = tuple(rows)
    return sections


def read_rows(path: Path, kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the rows of all sections."""
    return tuple(row for rows in read_sections(path, kind).values() for row in rows)


def _over(ground: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with what it leaves to ``ground``."""
    both = {key: (ground[key], row[key]) for key in ground.keys() & row.keys()}
    laid = {
        key: {**low, **high} for key, (low, high) in both.items() if isinstance(low, dict) and isinstance(high, dict)
    }
    return {**ground, **row, **laid}
