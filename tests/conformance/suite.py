"""One run of an official suite against an MCP endpoint, and what it found.

The verdict is made here from the ``checks.json`` that a suite writes for each scenario, and is stricter than the
suite's own: a check that was skipped has to be expected too, and an expectation that meets no such check is stale even
when its scenario was not run. What the suite's exit code holds against the server besides is never lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import yaml

from tests.services.process import require_node

HERE: Final = Path(__file__).parent
PATIENCE: Final = 240.0
"""Seconds after which a run, which takes some five on an idle machine, is given up."""

# A warning counts: what the specification only recommends is no excuse here.
_FAILED: Final = ("FAILURE", "WARNING")
_STARTED = re.compile(r"^=== Running scenario: (\S+) ===$", re.MULTILINE)
_FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_TAIL: Final = 2000


class NotInstalled(Exception):
    """A suite is missing; the message says how to install it."""


@dataclass(frozen=True)
class Run:
    """``name`` is the revision of MCP that is spoken, or the version of a suite that chooses for itself."""

    name: str
    package: str
    options: tuple[str, ...] = ()

    @property
    def expected(self) -> Path:
        """The file with what is expected to fail."""
        return HERE / "expected" / f"{self.name}.yml"


def _revision(version: str) -> Run:
    return Run(version, "@modelcontextprotocol/conformance", ("--spec-version", version))


RUNS: Final = (
    *map(_revision, ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")),
    Run("0.1.16", "conformance-0-1"),
)


@dataclass(frozen=True)
class Check:
    scenario: str
    id: str
    status: str
    message: str = ""

    def is_meant(self, entry: str) -> bool:
        """Whether an expectation, ``scenario`` or ``scenario:check``, speaks of this check."""
        return entry in (self.scenario, f"{self.scenario}:{self.id}")

    def __str__(self) -> str:
        return f"{self.scenario}:{self.id} {self.status}: {self.message}"


@dataclass(frozen=True)
class Expectations:
    """The checks that may fail, and those that may be skipped. The suites themselves only read ``server``."""

    server: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path) -> Self:
        document = yaml.safe_load(file.read_text()) or {}
        return cls(*(tuple(map(str, document.get(key) or ())) for key in ("server", "skipped")))


@dataclass(frozen=True)
class Report:
    """``unexpected`` and ``stale`` are to be read by a person; both empty is success."""

    name: str
    scenarios: int
    passed: int
    expected: int
    unexpected: tuple[str, ...]
    stale: tuple[str, ...]

    @property
    def good(self) -> bool:
        return not self.unexpected and not self.stale


async def run_suite(run: Run, url: str, folder: Path) -> Report:
    """Run against the server at ``url``; the suite's own results go to ``folder``. Raises :class:`NotInstalled`,
    :class:`TimeoutError`."""
    program = HERE / "node_modules" / run.package / "dist" / "index.js"
    if not program.exists():
        raise NotInstalled(f"{run.package} is missing: run tests/install.sh with the project's python")
    options = ("--suite", "all", *run.options, "--expected-failures", str(run.expected), "-o", str(folder))
    process = await asyncio.create_subprocess_exec(
        *(require_node(), str(program), "server", "--url", url, *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate()
    except TimeoutError:
        raise TimeoutError(f"{run.name}: the suite did not end within {PATIENCE:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode is not None
    expectations = Expectations.read(run.expected)
    return judge(run.name, list(checks_in(folder)), expectations, said.decode(errors="replace"), process.returncode)


def checks_in(folder: Path) -> Iterable[Check]:
    """All checks of a run, scenario by scenario."""
    for file in sorted(folder.glob("*/checks.json")):
        named = _FOLDER.fullmatch(file.parent.name)
        assert named, f"{file.parent.name} does not name a scenario"
        for check in json.loads(file.read_text()):
            yield Check(named[1], check["id"], check["status"], check.get("errorMessage") or check["description"])


def judge(name: str, checks: list[Check], expectations: Expectations, said: str, code: int) -> Report:
    """What the checks mean in the light of what is expected. ``said`` and ``code`` are the suite's output and exit
    code: a scenario that broke off has no checks."""
    started = set(_STARTED.findall(said))
    broken = started - {check.scenario for check in checks}
    checks = [*checks, *(Check(scenario, "", "FAILURE", "broke off") for scenario in sorted(broken))]
    failed = [check for check in checks if check.status in _FAILED]
    skipped = [check for check in checks if check.status == "SKIPPED"]
    unexpected, stale = [], []
    for found, entries in ((failed, expectations.server), (skipped, expectations.skipped)):
        unexpected += [str(check) for check in found if not any(map(check.is_meant, entries))]
        stale += [entry for entry in entries if not any(check.is_meant(entry) for check in found)]
    expected = len(failed) + len(skipped) - len(unexpected)
    if not started or (code and not unexpected and not stale):
        unexpected.append(f"the suite ended with exit code {code}. Its last words:\n{said[-_TAIL:]}")
    passed = sum(check.status == "SUCCESS" for check in checks)
    return Report(name, len(started), passed, expected, tuple(unexpected), tuple(stale))


def cells(report: Report) -> tuple[str, ...]:
    """A row of the table."""
    wrong = len(report.unexpected) + len(report.stale)
    return report.name, *map(str, (report.scenarios, report.passed, report.expected, wrong))
