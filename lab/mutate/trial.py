"""A plugin of pytest: collects once, then tries each mutant in a fork, with the tests that were planned for it.

In the fork the functions of the mutant get its code. Its file is written first: a program that a test starts reads it,
and so does a process that forks for such starts, which begins when the first test wants it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from lab.mutate.mutants import Mutant, written
from lab.mutate.swapping import swap

TASK: Final = "MUTATE_TASK"
"""The file that says what to try."""
_UNCHANGED: Final = "unchanged"
_ADOPT_ORPHANS: Final = 36
"""``PR_SET_CHILD_SUBREAPER`` of ``prctl``."""


_WHY: list[str] = []
_MOST_SAID: Final = 1500


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _WHY.append(str(report.longrepr)[-_MOST_SAID:])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    task = json.loads(Path(os.environ[TASK]).read_text())
    if session.testsfailed:
        raise session.Interrupted("the tests cannot be collected")
    if "alone" in task:
        _Tests(session, Path(task["said"])).run(task["alone"])
    else:
        _Trials(session, task).run()
    return True


class _Tests:
    """The tests that were collected; what they come to is written to a file."""

    def __init__(self, session: pytest.Session, said: Path) -> None:
        self._session, self._said = session, said

    def run(self, names: list[str], begin: Callable[[], bool] = lambda: True) -> None:
        """Run the tests up to the first that fails, if ``begin`` says so."""
        if not begin():
            self.say(verdict=_UNCHANGED)
            return
        of_name = {item.nodeid: item for item in self._session.items}
        items = [of_name[name] for name in names if name in of_name]
        if names and not items:  # a test's name may come from the gateway
            self.say(verdict="error", by="these tests have other names now")
            return
        for number, item in enumerate(items, 1):
            following = items[number] if number < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                self.say(verdict="killed", by=item.nodeid, ran=number, why=_WHY[-1])
                with suppress(BaseException):  # of a mutant
                    self._session._setupstate.teardown_exact(None)
                return
        self.say(verdict="survived", ran=len(items))

    def say(self, **said: Any) -> None:
        self._said.write_text(json.dumps(said))


class _Trials:
    """Tries one mutant after the other."""

    def __init__(self, session: pytest.Session, task: dict[str, Any]) -> None:
        self._session = session
        self._trials = task["trials"]
        self._limit: float = task["limit"]
        self._results = Path(task["results"])
        self._scratch: str = task["scratch"]
        self._said = self._results.with_suffix(".said")
        self._log = self._results.with_suffix(".log")
        self._root = session.config.rootpath
        self._sound: set[str] = set()
        self._unsound: set[str] = set()
        self._children = set(_children())

    def run(self) -> None:
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        try:
            for trial in self._trials:
                begun = time.monotonic()
                said = self._sound_verdict(trial)
                row = {**said, "seconds": round(time.monotonic() - begun, 1), **trial}
                with self._results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        finally:
            self._end_what_is_left()

    def _sound_verdict(self, trial: dict[str, Any]) -> dict[str, Any]:
        """Try it until no test or a sound one notices: one that passes where nothing is changed."""
        while True:
            names = [name for name in trial["tests"] if name not in self._unsound]
            said = self._verdict(Mutant.read(trial["mutant"]), names, trial["on_import"])
            if said["verdict"] != "killed" or said["by"] not in names or said["by"] in self._sound:
                return said
            by: str = said["by"]
            if self._passes(by):
                self._sound.add(by)
                return said
            self._unsound.add(by)

    def _passes(self, name: str) -> bool:
        return bool(self._forked(lambda tests: tests.run([name]))["verdict"] == "survived")

    def _verdict(self, mutant: Mutant, names: list[str], on_import: bool) -> dict[str, Any]:
        path = self._root / mutant.file
        source = path.read_bytes()

        def begin() -> bool:
            if mutant.module not in sys.modules:  # who imports it later reads the file
                return True
            try:
                return swap(source, str(path), mutant) > 0
            except ValueError:  # it has other free variables
                return False

        with written(self._root, mutant):
            said = self._forked(lambda tests: tests.run(names, begin))
            if said["verdict"] == _UNCHANGED or (said["verdict"] == "survived" and on_import):
                said = self._started(names)
        return said

    def _forked(self, run: Callable[[_Tests], None]) -> dict[str, Any]:
        """Run tests in a fork of this process."""
        self._said.unlink(missing_ok=True)
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, which a fork has not
            process = os.fork()
        if process == 0:
            self._run_in_fork(run)
        ended = os.pidfd_open(process)
        in_time = bool(select.select([ended], [], [], self._limit)[0])
        os.close(ended)
        return self._outcome(in_time)

    def _run_in_fork(self, run: Callable[[_Tests], None]) -> None:
        """Run, and end: nothing of the parent's ending is wanted here."""
        os.setsid()
        tests = _Tests(self._session, self._said)
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            run(tests)
        except Exception:
            tests.say(verdict="error", by=traceback.format_exc())
        finally:
            os._exit(0)

    def _started(self, names: list[str]) -> dict[str, Any]:
        """Run tests in a process of their own, which imports the mutant."""
        self._said.unlink(missing_ok=True)
        task = self._results.with_suffix(".alone")
        task.write_text(json.dumps({"alone": names, "said": str(self._said)}))
        with self._log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, *command_for(self._scratch), *files_of(names)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, TASK: str(task)},
            )
        try:
            process.wait(self._limit)
            in_time = True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            in_time = False
        return self._outcome(in_time)

    def _outcome(self, in_time: bool) -> dict[str, Any]:
        """End all that is left, and return what the tests came to."""
        self._end_what_is_left()
        if self._said.exists():
            said: dict[str, Any] = json.loads(self._said.read_text())
            return said
        if not in_time:
            return {"verdict": "timed out", "by": f"no end within {self._limit:g} s"}
        return {"verdict": "killed", "by": "the tests could not be collected, or their process ended"}

    def _end_what_is_left(self) -> None:
        """Kill all that descends from this process: orphans become its children."""
        while left := set(_children()) - self._children:
            for child in left:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(child, 0)


def _children() -> list[int]:
    """Return the children of this process, also those adopted."""
    threads = Path("/proc/self/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def command_for(scratch: str) -> list[str]:
    """Return the arguments of Python for pytest that tries what the environment names; ``scratch`` is its tests'."""
    without = [option for name in ("xdist", "cacheprovider") for option in ("-p", f"no:{name}")]
    return ["-m", "pytest", *without, "-p", __name__, f"--basetemp={scratch}", "--tb=short", "--color=no"]


def files_of(names: list[str]) -> list[str]:
    """Return the files in which these tests stand."""
    return list(dict.fromkeys(name.partition("::")[0] for name in names))
