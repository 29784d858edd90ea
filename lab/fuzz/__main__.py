"""``python -m lab.fuzz [COUNT [SEED]]``: print where our reader and h11 differ; exit code 1 where they do."""

from __future__ import annotations

import sys

from lab.fuzz.http import SEED, differences

if __name__ == "__main__":
    count, seed = int((sys.argv[1:2] or ["100000"])[0]), int((sys.argv[2:3] or [str(SEED)])[0])
    found = differences(count, seed)
    print(*found[:20], f"{count} cases of seed {seed}, {len(found)} differences", sep="\n")
    sys.exit(1 if found else 0)
