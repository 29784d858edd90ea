"""Make the environments of all peers, so that `make bench` spends no time on it: ``python -m lab.bench.peers``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from lab.bench.lanes import PYTHONS
from lab.bench.machine import Unusable
from lab.bench.peers import environments

MAKES: Final[tuple[Callable[[], object], ...]] = (
    environments.node_modules,
    *(partial(environments.python, requirements.stem) for requirements in sorted(environments.HERE.glob("*.txt"))),
    *(partial(environments.project, version) for version in PYTHONS),
)
for make in MAKES:
    try:
        make()
    except Unusable as reason:
        # the page will say it
        print(f"lab.bench.peers: {' '.join(str(reason).split())[:500]}", file=sys.stderr)
