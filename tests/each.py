"""Tables of cases that one test goes through."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest


def each(names: str | Sequence[str], rows: Iterable[Any] | Mapping[str, Any], ids: Any = None) -> Callable[..., Any]:
    """Return a decorator that runs a test on every row of a table, under one id.

    It takes what ``pytest.mark.parametrize`` takes, except marks of a row. A mapping has the names of the rows, and the
    rows. All rows run, and the failure names every row that failed, with its traceback. A row that skips fails.
    The rows share the test's fixtures, so a row must not hold against the next what it left in them. A fixture with a
    method ``end_row`` forgets there what it counted.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    if isinstance(rows, Mapping):
        rows, ids = rows.values(), rows.keys()
    table = dict(_named_rows(arguments, [*rows], ids))

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(**fixtures: Any) -> None:
                failures: dict[str, BaseException] = {}
                for name, row in table.items():
                    with _collect(failures, name):
                        await test(**fixtures, **row)
                    _end_row(fixtures)
                _report(failures, len(table))

        else:

            @functools.wraps(test)
            def run(**fixtures: Any) -> None:
                failures: dict[str, BaseException] = {}
                for name, row in table.items():
                    with _collect(failures, name):
                        test(**fixtures, **row)
                    _end_row(fixtures)
                _report(failures, len(table))

        # pytest reads here which fixtures the test wants.
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate


def _end_row(fixtures: Mapping[str, Any]) -> None:
    for fixture in fixtures.values():
        if hasattr(fixture, "end_row"):
            fixture.end_row()


def _named_rows(arguments: list[str], rows: list[Any], ids: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the arguments of each row. Raise ValueError for a table without rows."""
    if not rows:
        raise ValueError(f"a table of {arguments} without rows tests nothing")
    of_rows = None if ids is None or callable(ids) else [*ids]
    for number, row in enumerate(rows):
        name, values = None, row if len(arguments) > 1 else (row,)
        if hasattr(row, "marks"):  # pytest.param
            if row.marks:
                raise ValueError(f"row {number} of {arguments} has marks, which count for a whole test only")
            name, values = row.id, row.values
        if of_rows is not None:
            name = of_rows[number]
        if name is None:
            name = "-".join(_name_of(value, ids) for value in values)
        # The number keeps rows of the same name apart.
        yield f"{number} {name}", dict(zip(arguments, values, strict=True))


def _name_of(value: Any, ids: Callable[[Any], Any] | None) -> str:
    named = None if ids is None else ids(value)
    text = repr(value) if named is None else str(named)
    return text if len(text) <= 80 else f"{text[:60]}... of {len(text)} characters"


@contextmanager
def _collect(failures: dict[str, BaseException], name: str) -> Iterator[None]:
    """Keep what a row raises, so that the next ones run."""
    try:
        yield
    # A row that skips would end the test as skipped, with the failures of the rows before it.
    # A table within a table raises a group.
    except (Exception, BaseExceptionGroup, pytest.fail.Exception, pytest.skip.Exception) as failure:
        failure.add_note(f"row {name}")
        # pytest-timeout interrupts a test once: if the next row hung too, nothing would end it.
        if isinstance(failure, pytest.fail.Exception) and str(failure).startswith("Timeout"):
            raise
        failures[name] = failure


def _report(failures: dict[str, BaseException], rows: int) -> None:
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {rows} rows fail: {'; '.join(failures)}", [*failures.values()])
