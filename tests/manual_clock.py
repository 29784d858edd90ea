"""A clock for code that takes one as an argument. :mod:`tests.clock` has one for the event loop."""

from __future__ import annotations


class ManualClock:
    """Return seconds that stand still until a test changes ``now``."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
