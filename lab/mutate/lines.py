"""Writes down which lines of a package a process runs, each once for a test.

A process that a test started knows the test by its environment: pytest names it there, and programs hand it on. The
modules of the package must be imported after :func:`watch`. It is imported by each Python that a test starts: little.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, Final

RECORDS: Final = "MUTATE_RECORDS"
"""The folder that takes what processes run."""
PACKAGE: Final = "MUTATE_PACKAGE"
"""The folder of the package whose lines count."""
TEST: Final = "PYTEST_CURRENT_TEST"
_MONITORING: Any = getattr(sys, "monitoring", None)
"""There from Python 3.12 on."""
_TOOL: Final = 4
_HIGH: Final = 500
"""Programs and their tests number their descriptors from below: ours is not among them."""


class Lines:
    """The lines that run, in this process and in those that it forks."""

    def __init__(self, package: str, records: str, keeps: bool) -> None:
        self._package = os.path.join(package, "")  # noqa: PTH118 - pathlib takes its time, at each start
        self._outer = len(os.path.dirname(package)) + 1  # noqa: PTH120
        self._records = records
        self._home = os.getpid() if keeps else 0
        self._seen: set[tuple[str, int]] = set()
        self._written = (0, "")
        self._file = -1

    def taken(self) -> set[tuple[str, int]]:
        """Return file and number of each line since the last time; they count anew from now on."""
        seen, self._seen = self._seen, set()
        _MONITORING.restart_events()
        return seen

    def watch(self) -> None:
        """Begin. Each file of the package that is loaded from now on is marked."""
        _MONITORING.use_tool_id(_TOOL, "mutate")
        _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, self._runs)
        loader_class: Any = SourceFileLoader
        load = loader_class.get_code

        def get_code(loader: Any, name: str) -> CodeType | None:
            code: CodeType | None = load(loader, name)
            if code is not None and loader.path.startswith(self._package):
                _mark(code)
            return code

        loader_class.get_code = get_code

    def _runs(self, code: CodeType, line: int) -> object:
        file = code.co_filename[self._outer :]
        if os.getpid() == self._home:
            self._seen.add((file, line))
        else:
            self._write(f"{file}:{line}\n")
        return _MONITORING.DISABLE

    def _write(self, row: str) -> None:
        """Write to a file of this process and its test, at once: it may be killed. Who has closed it is not heard."""
        who = (os.getpid(), os.environ.get(TEST, ""))
        try:
            if who != self._written:
                path = f"{self._records}/{who[0]}-{time.monotonic_ns()}"
                opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._file = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _HIGH)
                os.close(opened)
                os.write(self._file, f"{who[1]}\n".encode())
                self._written = who
            os.write(self._file, row.encode())
        except OSError:
            pass


def _mark(code: CodeType) -> None:
    _MONITORING.set_local_events(_TOOL, code, _MONITORING.events.LINE)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _mark(constant)


def watch(keeps: bool) -> Lines:
    """Watch the package that the environment names. What the process runs itself is kept, or written as it runs."""
    if _MONITORING is None:
        raise RuntimeError("which lines run is said from Python 3.12 on")
    lines = Lines(os.environ[PACKAGE], os.environ[RECORDS], keeps)
    lines.watch()
    return lines


def watch_what_a_test_started() -> None:
    """Watch this process, too. Python reads the hook twice where two folders of its packages are one."""
    if _MONITORING is not None and _MONITORING.get_tool(_TOOL) is None:
        watch(keeps=False)


HOOK: Final = (
    f"import os; {{{RECORDS!r}, {TEST!r}}} <= set(os.environ) and "
    "__import__('lab.mutate.lines').mutate.lines.watch_what_a_test_started()"
)
"""What stands in a file ``*.pth`` of the environment, for each Python that a test starts."""
