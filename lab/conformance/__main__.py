"""The official MCP conformance suites, once per revision: ``python -m lab.conformance [--only REVISION ...]``.

Exit code: 0 where all that fails is expected, 1 where something else failed or an expected failure did not, 2 where
the suites could not run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.stage import conform, operator_knobs
from tests.conformance.suite import RUNS, NotInstalled, Report, Run, cells
from tests.services.process import ServiceMissing

COLUMNS = ("revision", "scenarios", "checks passed", "expected failures", "unexpected")


def table(reports: Sequence[Report]) -> str:
    rows = [COLUMNS, *map(cells, reports)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in rows
    )


def complaints(report: Report) -> list[str]:
    """What is wrong, a line each."""
    return [
        *(f"{report.name}: {failure}" for failure in report.unexpected),
        *(f"{report.name}: {entry} is expected to fail and does not: remove the entry" for entry in report.stale),
    ]


async def run_all(runs: Sequence[Run], folder: Path) -> list[Report]:
    reports = []
    for run in runs:
        print(f"{run.name} ...", file=sys.stderr, flush=True)
        reports.append(await conform(run, folder / run.name))
    return reports


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.conformance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[run.name for run in RUNS], help="one of the runs")
    parser.add_argument("--output", type=Path, help="an empty folder where the suites' own results stay")
    given = parser.parse_args(arguments)
    if given.output and given.output.exists() and any(given.output.iterdir()):
        parser.error(f"{given.output} is not empty")
    runs = [run for run in RUNS if not given.only or run.name in given.only]
    try:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            reports = asyncio.run(run_all(runs, given.output or Path(folder)))
    except (NotInstalled, ServiceMissing, TimeoutError, AssertionError) as reason:
        print(f"conformance: {str(reason) or 'the gateway did not start in time'}", file=sys.stderr)
        return 2
    print(table(reports))
    print("\nwith these knobs of the operator:", *operator_knobs(), sep="\n  ")
    for line in (line for report in reports for line in complaints(report)):
        print(f"\n{line}")
    return 0 if all(report.good for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
