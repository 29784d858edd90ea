"""Tables of cases as data. Beside a file of tests stands a YAML file of the same name, with the rows of its tables.

the_shape_of_params_is_a_guess:           # a test, without test_
  The listing says nothing.:              # what the row shows
    params: {a: 1}                        # an argument of the test
    structure: by-name
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from gateway.config.strict_yaml import read_yaml
from tests.each import each


class NotARow(ValueError):
    """Raised for a row that does not fit its test. The message has its file, section and name."""


def each_row(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test on each row of its section. Raise NotARow.

    The keys of a row are arguments of the test, and each value is of the argument's type. Rows may leave out an
    argument that has a default; the test's other arguments, which no row has, are fixtures.
    """
    path = Path(test.__code__.co_filename).with_suffix(".yaml")
    section = test.__name__.removeprefix("test_")
    rows = _read(path).get(section)
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        raise NotARow(f"{path.name}: {section}: must have rows by name, each with its arguments")
    takes, hints = inspect.signature(test).parameters, get_type_hints(test)
    names = [name for name in takes if any(name in row for row in rows.values())]
    table = {}
    for title, row in rows.items():
        where = f"{path.name}: {section}: {title}"
        if unknown := row.keys() - takes.keys():
            raise NotARow(f"{where}: the test has no argument {', '.join(sorted(unknown))}")
        values = {name: row.get(name, takes[name].default) for name in names}
        if missing := [name for name, value in values.items() if value is inspect.Parameter.empty]:
            raise NotARow(f"{where}: lacks {', '.join(missing)}")
        try:
            cells = [_cell(value, hints[name], given=name in row) for name, value in values.items()]
        except msgspec.ValidationError as error:
            raise NotARow(f"{where}: {error}") from None
        table[title] = tuple(cells) if len(cells) > 1 else cells[0]
    return each(names, table)(test)


def _cell(value: Any, kind: Any, *, given: bool) -> Any:
    return msgspec.convert(value, kind) if given else value


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    return read_yaml(path.read_text(encoding="utf-8"), path.name)
