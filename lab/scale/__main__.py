"""How many callers how many replicas serve: ``python -m lab.scale [--rounds N] [--draft]``, or ``make scale``.

It measures what calls cost, foretells real runs from that, makes these runs, and has a Redis fail over under load. Then
it writes docs/capacity.md. Exit code: 0 where the model is near enough and no call went wrong, 1 where not, 2 where the
machine is busy with something else or lacks a program: then the page is written with ``--draft`` alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lab.bench.machine import Unusable, program
from lab.bench.versions import processor
from lab.scale.failover import FailedOver, fail_over
from lab.scale.model import Costs
from lab.scale.page import PAGE, QUIET, RESULTS, ROOT, left, write
from lab.scale.runs import ROUNDS, Checked, measure, say


def results(costs: Costs, checks: Sequence[Checked], failover: FailedOver) -> dict[str, Any]:
    """Return all that the page is made of, as JSON."""
    return {
        "rounds": len(checks[0].real),
        "costs": asdict(costs),
        "checks": [
            {
                "what": one.check.what,
                "foretold": statistics.median(one.foretold),
                "real": statistics.median(one.real),
                "off": one.off,
                "within": one.check.within,
                "left": statistics.median(one.left),
                "holds": one.holds,
            }
            for one in checks
        ],
        "failover": asdict(failover),
        "machine": processor(),
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.scale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of the runs (default {ROUNDS})")
    parser.add_argument("--draft", action="store_true", help="write the page although the machine is busy")
    given = parser.parse_args(arguments)
    cores = os.sched_getaffinity(0)
    try:
        program("wrk")
        costs, checks = measure(given.rounds)
    except Unusable as reason:
        print(f"scale: {reason}", file=sys.stderr)
        return 2
    finally:
        os.sched_setaffinity(0, cores)
    say("a failover of Redis")
    failover = asyncio.run(fail_over())
    for one in checks:
        verdict = "ok" if one.holds else "MISSED"
        print(f"{one.check.what:<40}{one.off:+8.1%}  (at most {one.check.within:.0%})  {verdict}")
    print(f"a failover of Redis: {failover}")
    share = min(statistics.median(one.left) for one in checks)
    is_quiet = share >= QUIET
    if not is_quiet:
        print(f"scale: {left(share)}", file=sys.stderr)
    if is_quiet or given.draft:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results(costs, checks, failover), indent=1), encoding="utf-8")
        write(json.loads(RESULTS.read_text(encoding="utf-8")))
        print(f"written: {PAGE.relative_to(ROOT)}")
    if not is_quiet:
        return 2
    return 0 if failover.holds and all(one.holds for one in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
