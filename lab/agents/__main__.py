"""Ask sixty questions of six listings without a model, print what came of it, and write it into docs/agents.md.

Exit code: 0 where all floors are met, 1 where one is missed; then the page stays as it is.

``python -m lab.agents [LISTING ...]`` asks some, and leaves the page as it is. ``--details`` prints what went wrong.
``--model NAME --url URL`` asks a model instead, whose key is in the environment variable AGENTS_API_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.telemetry import logs
from lab.agents.listings import LISTINGS
from lab.agents.measure import Measured, measure
from lab.agents.model import Endpoint, ask_all
from lab.agents.questions import read_questions
from lab.agents.table import details, missed, table, table_of_talks, with_table

KEY: Final = "AGENTS_API_KEY"
PAGE: Final = Path(__file__).parents[2] / "docs" / "agents.md"


async def asked(names: Sequence[str], endpoint: Endpoint) -> int:
    """Ask a model, print how often it succeeded, and return the exit code."""
    talks = []
    for name in names:
        talks += await ask_all(endpoint, LISTINGS[name], [one for one in read_questions() if one.listing == name])
        print(name, file=sys.stderr)
    print(table_of_talks(talks))
    return 0


async def measured(names: Sequence[str]) -> list[Measured]:
    """Return the figures of some listings."""
    rows = []
    for name in names:
        print(name, file=sys.stderr)
        rows.append(await measure(name, LISTINGS[name], [one for one in read_questions() if one.listing == name]))
    return rows


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.agents", description=__doc__)
    parser.add_argument("listings", nargs="*", choices=[[], *LISTINGS], metavar="LISTING")
    parser.add_argument("--details", action="store_true", help="print what is not found, and what is not mended")
    parser.add_argument("--model", help="name of a model to ask")
    parser.add_argument("--url", help="its API, such as https://api.example.com/v1")
    options = parser.parse_args(arguments)
    if bool(options.model) != bool(options.url):
        parser.error("--model and --url go together")
    logs.configure("error")
    if options.model:
        endpoint = Endpoint(options.url, options.model, os.environ.get(KEY, ""))
        return asyncio.run(asked(options.listings or [*LISTINGS], endpoint))
    rows = asyncio.run(measured(options.listings or [*LISTINGS]))
    if options.details:
        print("\n".join(details(rows)))
    print(table(rows))
    if options.listings:
        return 0
    faults = [*missed(rows)]
    print("".join(f"missed: {fault}\n" for fault in faults), end="")
    if not faults:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table(rows)), encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
