"""Ask sixty questions of six listings without a model, print what came of it, and write it into docs/agents.md.

Exit code: 0 where all floors are met, 1 where one is missed; then the page stays as it is.

``python -m tests.agents [LISTING ...]`` asks some, and leaves the page as it is. ``--details`` prints what went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from gateway.telemetry import logs
from tests.agents.listings import LISTINGS
from tests.agents.measure import Measured, measure
from tests.agents.questions import read_questions
from tests.agents.table import details, missed, table


async def measured(names: Sequence[str]) -> list[Measured]:
    """Return the figures of some listings."""
    rows = []
    for name in names:
        print(name, file=sys.stderr)
        rows.append(await measure(name, LISTINGS[name], [one for one in read_questions() if one.listing == name]))
    return rows


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.agents", description=__doc__)
    parser.add_argument("listings", nargs="*", choices=[[], *LISTINGS], metavar="LISTING")
    parser.add_argument("--details", action="store_true", help="print what is not found, and what is not mended")
    options = parser.parse_args(arguments)
    logs.configure("error")
    rows = asyncio.run(measured(options.listings or [*LISTINGS]))
    if options.details:
        print("\n".join(details(rows)))
    print(table(rows))
    faults = [] if options.listings else [*missed(rows)]
    print("".join(f"missed: {fault}\n" for fault in faults), end="")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
