"""Tables of cases as data. Beside a file of tests stands a YAML file of the same name, with the rows of its tables.

the_shape_of_params_is_a_guess:           # a test, without test_
  The listing says nothing.:              # what the row shows
    params: {a: 1}                        # an argument of the test
    structure: by-name
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from gateway.config.strict_yaml import read_yaml
from tests.each import each


class NotARow(ValueError):
    """Raised for a row that does not fit its test. The message has its file, section and name."""


def each_row(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test on each row of its section. Raise NotARow.

    The keys of a row are arguments of the test, and each value is of the argument's type. A row named ``every row`` is
    none: it has what each other row has unless that says something else.
    """
    return each_row_and({})(test)


def each_row_and(more: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that runs ``more`` rows, too: those that only Python can say, as ``each`` takes them."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        names, rows = _rows_of(test)
        return each(names, {**rows, **more})(test)

    return decorate


def _rows_of(test: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments that rows have, and the rows."""
    path = Path(test.__code__.co_filename).with_suffix(".yaml")
    section = test.__name__.removeprefix("test_")
    rows = _read(path).get(section)
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        raise NotARow(f"{path.name}: {section}: must have rows by name, each with its arguments")
    ground = rows.get("every row", {})
    takes, hints = inspect.signature(test).parameters, get_type_hints(test)
    names = [name for name in takes if any(name in row for row in rows.values())]
    table = {}
    for title, row in rows.items():
        where, cells = f"{path.name}: {section}: {title}", {**ground, **row}
        if unknown := cells.keys() - takes.keys():
            raise NotARow(f"{where}: the test has no argument {', '.join(sorted(unknown))}")
        if title == "every row":
            continue
        if missing := [name for name in names if name not in cells]:
            raise NotARow(f"{where}: lacks {', '.join(missing)}")
        try:
            values = tuple(msgspec.convert(cells[name], hints[name]) for name in names)
        except msgspec.ValidationError as error:
            raise NotARow(f"{where}: {error}") from None
        if lost := [*_lost([cells[name] for name in names], msgspec.to_builtins(values))]:
            raise NotARow(f"{where}: there is no {', '.join(lost)}")
        table[title] = values if len(names) > 1 else values[0]
    return names, table


def _lost(written: Any, read: Any) -> Iterator[str]:
    """Yield the keys that the types of the arguments have no field for."""
    if isinstance(written, dict):
        yield from written.keys() - read.keys()
        for key in written.keys() & read.keys():
            yield from _lost(written[key], read[key])
    elif isinstance(written, list):
        for one, other in zip(written, read, strict=True):
            yield from _lost(one, other)


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    return read_yaml(path.read_text(encoding="utf-8"), path.name)
