"""Say what tests and their collection cost in processor time, and give the files called ``long_*.py`` more time.

``pytest --most-seconds 10`` prints the tests that cost most, and fails where one costs more, except in ``long_*.py``.
Seconds count wherever they were spent for a test: in its fixtures, and in processes that it started, directly or not.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

LONG: Final = 300
"""Seconds of real time for a test in ``long_*.py``, with its fixtures. pyproject.toml has those for the others."""
SHOWN: Final = 20
_COST: Final = "processor seconds"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def spent() -> float:
    """Return the processor seconds of this process and all below it, both those that ended and those that run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(_spent_by, _children("self")))


def _children(process: int | str) -> list[int]:
    children: list[int] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            children += map(int, (thread / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # this thread has ended
    return children


def _spent_by(process: int) -> float:
    """Return the processor seconds of a process that runs, its children, and those that it had."""
    try:
        # After the name: the state is the first of these fields, proc(5) counts it as the third.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS + sum(map(_spent_by, _children(process)))
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended


def is_long(path: str | Path) -> bool:
    return Path(path).name.startswith("long_")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--most-seconds", type=float, help="fail where a test outside long_*.py costs more processor seconds"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config), "costs of tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_long(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG))


class Costs:
    """What was spent in this process, or in the workers that it started."""

    def __init__(self, config: pytest.Config) -> None:
        self._most: float | None = config.getoption("--most-seconds")
        self._to_controller: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._spent = 0.0
        self._collections: list[float] = []
        self._tests: list[tuple[float, str]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        began = time.process_time()
        yield
        if self._to_controller is not None:
            self._to_controller[_COST] = time.process_time() - began
        self._spent = spent()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker tells at its end. One that crashed tells nothing."""
        if _COST in getattr(node, "workeroutput", {}):
            self._collections.append(node.workeroutput[_COST])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: Any = yield
        if call.when == "teardown":
            before, self._spent = self._spent, spent()
            report.user_properties.append((_COST, self._spent - before))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests += [(value, report.nodeid) for name, value in report.user_properties if name == _COST]

    @property
    def _too_dear(self) -> list[str]:
        if self._most is None:
            return []
        files = [(cost, test, test.partition("::")[0]) for cost, test in self._tests]
        return [test for cost, test, file in files if cost > self._most and not is_long(file)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._too_dear and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        if self._collections:
            seconds = ", ".join(f"{cost:.1f} s" for cost in sorted(self._collections))
            write(f"collection: {seconds} of processor time, one figure for each worker")
        if self._most is None:
            return
        write(f"tests with the most processor seconds of {sum(cost for cost, _ in self._tests):.0f}:")
        for cost, test in sorted(self._tests, reverse=True)[:SHOWN]:
            write(f"{cost:8.2f}  {test}")
        for test in self._too_dear:
            write(f"more than {self._most:g} s of processor time: {test}", red=True)
