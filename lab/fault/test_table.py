"""The table of ``make fault`` names what misses its target."""

from __future__ import annotations

import math

from lab.fault.table import Figure, Line, table
from tests.each import each


@each(
    ("line", "missed"),
    [
        (Line(held=1.0, worst=0.1, slowdown=3.0, recovery=2.0), []),
        (Line(held=0.999), ["held"]),
        (Line(slowdown=3.01), ["p99"]),
        (Line(slowdown=math.nan), ["p99"]),
        (Line(recovery=math.inf), ["recovery"]),
        (Line(wrong=1, twice=1, lost=1, late=1), ["wrong", "twice", "lost", "late"]),
        (Line(figures=(Figure("VmHWM", 513, 512, " MiB"), Figure("fine", 1, 1))), ["VmHWM"]),
    ],
)
def test_each_target_that_is_missed_is_named(line: Line, missed: list[str]) -> None:
    assert line.missed == missed
    assert table({"a row": line}).count("MISSED") == bool(missed)
