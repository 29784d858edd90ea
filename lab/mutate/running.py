"""Runs pytest in copies of the checkout: once to map, then to try mutants."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.mutate.copies import Refused
from lab.mutate.lines import PACKAGE, RECORDS, TEST
from lab.mutate.plan import Asked, fold
from lab.mutate.trial import TASK, command_for, files_of

_LOOK: Final = 2.0
_MOST_SHOWN: Final = 2000


@dataclass(frozen=True)
class Ground:
    """Where tests run: the folder of a copy, its Python, and the name of the package."""

    folder: Path
    python: str
    package: str = "gateway"


def draw_map(ground: Ground, home: Path, path: Path, header: dict[str, Any], tests: Sequence[str], workers: int) -> str:
    """Run all tests, or these, and write at ``path`` what each runs. Return the last line that pytest says.

    Raises :class:`Refused` where pytest could not run them. A test that fails is mapped as far as it came.
    """
    records, log = home / "records", home / "map.log"
    shutil.rmtree(records, ignore_errors=True)
    records.mkdir(parents=True)
    path.parent.mkdir(exist_ok=True)
    spread = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else ["-p", "no:xdist"]
    plugins = ["-p", "no:cacheprovider", "-p", "lab.mutate.mapping"]
    here = {name: value for name, value in os.environ.items() if name != TEST}
    environ = {**here, PACKAGE: str((ground.folder / ground.package).resolve()), RECORDS: str(records.resolve())}
    with log.open("w") as output:
        done = subprocess.run(
            [ground.python, "-m", "pytest", *spread, *plugins, "--tb=short", "--color=no", *tests],
            cwd=ground.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    said = log.read_text()
    if done.returncode not in (0, 1) or not any(records.iterdir()):
        raise Refused(f"pytest ended with {done.returncode}, see {log}:\n{said[-_MOST_SHOWN:]}")
    fold(records, header, path)
    shutil.rmtree(records)
    return said.rstrip().rpartition("\n")[2].strip("= ")


def tried(
    grounds: Sequence[Ground], home: Path, asked: Sequence[Asked], limit: float, tell: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Try each mutant, in all grounds at once, and ``tell`` each verdict. Return them in the order of the mutants.

    Raises :class:`Refused` where pytest could not run.
    """
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        workers = [
            _Worker(
                ground, home / f"worker-{number}", Path(scratch) / str(number), asked[number :: len(grounds)], limit
            )
            for number, ground in enumerate(grounds)
        ]
        found: list[dict[str, Any]] = []
        while len(found) < len(asked):
            running = [worker.is_running() for worker in workers]
            for row in (row for worker in workers for row in worker.news()):
                tell(row)
                found.append(row)
            if not any(running):
                break
            time.sleep(_LOOK if len(found) < len(asked) else 0)
        for worker in workers:
            worker.end()
    return sorted(found, key=lambda row: int(row["mutant"]["number"]))


class _Worker:
    """A process of pytest that tries mutants in one ground."""

    def __init__(self, ground: Ground, stem: Path, scratch: Path, asked: Sequence[Asked], limit: float) -> None:
        self._results, self._output, self._read = stem.with_suffix(".jsonl"), stem.with_suffix(".out"), 0
        stem.parent.mkdir(parents=True, exist_ok=True)
        self._results.write_text("")
        task = stem.with_suffix(".task")
        trials = [one.row for one in asked]
        said = {"trials": trials, "results": str(self._results), "limit": limit, "scratch": str(scratch)}
        task.write_text(json.dumps(said))
        names = [name for one in asked for name in one.tests]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                [ground.python, *command_for(str(scratch)), *files_of(names)],
                cwd=ground.folder,
                # A test of a mutant is ended, and leaves its files behind.
                env={**os.environ, TASK: str(task), "TMPDIR": str(scratch.parent)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def news(self) -> list[dict[str, Any]]:
        """Return the verdicts since the last time."""
        rows = self._results.read_text().split("\n")[self._read : -1]
        self._read += len(rows)
        return [json.loads(row) for row in rows]

    def end(self) -> None:
        if self._process.wait():
            raise Refused(f"pytest failed, see {self._output}:\n{self._output.read_text()[-_MOST_SHOWN:]}")
