"""``make mutate``: break the gateway in many places, and say which of them no test notices."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lab.mutate.copies import HOME, ROOT, Refused, copy, digest, interpreter_of
from lab.mutate.mutants import Misfit, Mutant, candidates, chosen, replayed
from lab.mutate.plan import Map
from lab.mutate.report import line_of, summary, survivors
from lab.mutate.running import Ground, draw_map, tried

RESULTS: Final = HOME / "results.jsonl"


def main() -> int:
    options = _options()
    try:
        mutants = _mutants(options)
        grounds = [Ground(folder, interpreter_of(folder)) for folder in map(copy, range(1, options.workers + 1))]
        rows = _try(mutants, grounds, _map(options, grounds[0]), options)
    except (Refused, Misfit) as refused:
        print(refused, file=sys.stderr)
        return 2
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"\n{survivors(rows)}\n\n{summary(rows)}; each verdict is in {RESULTS.relative_to(ROOT)}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.mutate", description=__doc__)
    add = parser.add_argument
    add("--files", nargs="*", default=[], help="files to break; all of the gateway without them")
    add("--mutants", type=int, default=200, help="how many; 0 draws the map alone")
    add("--seed", type=int, default=1, help="which of the many mutants")
    add("--replay", type=Path, help="try the mutants of this file: a JSON list, or results of a run")
    add("--verdicts", nargs="*", default=[], help="of results that are replayed: those with these verdicts")
    add("--map", type=Path, help="a map that was drawn before, of the same gateway")
    add("--tests", nargs="*", default=[], help="paths of the tests to map and to ask; all without them")
    add("--seconds", type=float, default=45, help="ask each mutant so many seconds of tests, the most specific first")
    add("--limit", type=float, default=150, help="a mutant whose tests take longer has timed out")
    add("--workers", type=int, default=1, help="so many copies at once, each with its environment")
    return parser.parse_args()


def _mutants(options: argparse.Namespace) -> list[Mutant]:
    if options.replay:
        return replayed(ROOT, options.replay, *options.verdicts)
    files = options.files or [str(path.relative_to(ROOT)) for path in sorted((ROOT / "gateway").rglob("*.py"))]
    pool = candidates(ROOT, files)
    found = chosen(ROOT, pool, options.mutants, options.seed)
    print(f"{len(found)} of {len(pool)} mutants of {len(files)} files, seed {options.seed}", flush=True)
    return found


def _map(options: argparse.Namespace, ground: Ground) -> Path:
    """Return the map to use: the one that was named, the one that is kept, or a new one."""
    made_of = {"gateway": digest("gateway"), "tests": digest("tests", "lab"), "asked": options.tests}
    if options.map:
        with options.map.open() as rows:
            header = json.loads(next(rows))
        if header["gateway"] != made_of["gateway"]:
            raise Refused(f"{options.map} is of another gateway, whose lines stood elsewhere")
        if header["tests"] != made_of["tests"]:
            print(f"{options.map} is of other tests: it knows no new one", flush=True)
        return Path(options.map)
    name = "-".join(made_of[part] for part in ("gateway", "tests")) + "".join(
        f"-{Path(path).as_posix().replace('/', '.')}" for path in options.tests
    )
    path = HOME / "maps" / f"{name}.jsonl"
    if not path.exists():
        print("mapping which test runs which line ...", flush=True)
        print(draw_map(ground, HOME, path, made_of, options.tests, options.workers), flush=True)
    print(f"map: {path.relative_to(ROOT)}", flush=True)
    return path


def _try(
    mutants: Sequence[Mutant], grounds: Sequence[Ground], path: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    if not mutants:
        return []
    drawn = Map(path, {mutant.file for mutant in mutants})
    asked = [drawn.asked(ROOT, mutant, options.seconds) for mutant in mutants]
    return tried(grounds, HOME, asked, options.limit, lambda row: print(line_of(row), flush=True))


if __name__ == "__main__":
    sys.exit(main())
