"""Bounds on processor time that hold on a slow or busy machine, too: they are stretched by how slow it is just then."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LOOPS: Final = 100_000
_NOMINAL: Final = 0.004
"""Seconds that the yardstick takes on an idle machine of the kind that the bounds were set on."""


@contextmanager
def quickly(limit: float = 0.05) -> Iterator[None]:
    """Bound the processor seconds of what is inside. What other tests left in memory is kept from the collector
    meanwhile, which would go through all of it."""
    before = _pace()
    gc.freeze()
    try:
        started = time.process_time()
        yield
        took = time.process_time() - started
    finally:
        gc.unfreeze()
    slowness = max(1.0, before, _pace())
    assert took < limit * slowness, f"took {took:.3f} s, at most {limit} s are allowed, {slowness:.1f} times stretched"


def slowness() -> float:
    """How many times slower than nominal this machine is at the moment; at least 1."""
    return max(1.0, _pace())


def _pace() -> float:
    """How many times slower than nominal this machine is at the moment."""
    started = time.process_time()
    total = 0
    for number in range(_LOOPS):
        total += number
    return (time.process_time() - started) / _NOMINAL
