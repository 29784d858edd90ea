"""Make the environments of all peers, so that `make bench` spends no time on it: ``python -m lab.bench.peers``."""

from __future__ import annotations

import sys
from functools import partial

from lab.bench.lanes import PYTHONS
from lab.bench.machine import Unusable
from lab.bench.peers import environments

for make in (
    environments.node_modules,
    *(partial(environments.python, requirements.stem) for requirements in sorted(environments.HERE.glob("*.txt"))),
    *(partial(environments.project, version) for version in PYTHONS),
):
    try:
        make()
    except Unusable as reason:
        # the page will say it
        print(f"lab.bench.peers: {' '.join(str(reason).split())[:500]}", file=sys.stderr)
