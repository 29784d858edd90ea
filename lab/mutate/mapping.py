"""A plugin of pytest: writes a row for each test, with the lines of the package that it ran and the time it took.

What it ran before the first test, in importing and collecting, is a row without a name.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from lab.mutate.lines import RECORDS, watch

_LINES = watch(keeps=True)


def bits_of(lines: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Return the lines of each file as a number in hexadecimal, whose bit 7 is line 7: 11,000 tests run 27 million."""
    of_file: dict[str, int] = {}
    for file, line in lines:
        of_file[file] = of_file.get(file, 0) | 1 << line
    return {file: f"{bits:x}" for file, bits in of_file.items()}


def _write(test: str, seconds: float, lines: Iterable[tuple[str, int]]) -> None:
    row = {"test": test, "seconds": round(seconds, 3), "lines": bits_of(lines)}
    with (Path(os.environ[RECORDS]) / f"tests-{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def pytest_collection_finish() -> None:
    _write("", 0, _LINES.taken())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _LINES.taken()
    begun = time.perf_counter()
    result = yield
    _write(item.nodeid, time.perf_counter() - begun, _LINES.taken())
    return result
