"""The table of ``make fault``: what was measured in each row, and which targets it misses.

A target that is not met is a defect of the gateway. None moves but by a decision page (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

HELD: Final = 1.0
"""The share of healthy callers' calls that are answered rightly."""
SLOWDOWN: Final = 3.0
"""How many times as long healthy callers wait, at most (99th percentile, against the quiet time of the same round)."""
RECOVERY: Final = 2.0
"""Seconds until the first right answer after a fault is over."""
MEMORY: Final = 512.0
"""MiB that the process may ever hold, which is what a pod has."""

_COLUMNS: Final = "{:<46}{:>7}{:>10}{:>10}{:>7}{:>7}{:>6}{:>6}{:>9}  {}"
_HEAD: Final = ("fault", "held", "worst ms", "p99/quiet", "wrong", "twice", "lost", "late", "recovery", "verdict")


@dataclass(frozen=True)
class Figure:
    """A figure of a row's own, and what it may be at most."""

    what: str
    value: float
    at_most: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.value:.3g}{self.unit} (<= {self.at_most:g}{self.unit})"


@dataclass(frozen=True)
class Line:
    """What was measured in a row; None is what the row does not measure.

    ``held`` is the share of healthy calls that were answered rightly, ``worst`` the longest wait for one in seconds,
    ``slowdown`` the 99th percentile against quiet, ``recovery`` seconds. ``late`` counts answers after the deadline.
    """

    held: float | None = None
    worst: float | None = None
    slowdown: float | None = None
    wrong: int = 0
    twice: int = 0
    lost: int = 0
    late: int = 0
    recovery: float | None = None
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    """What helps to find the reason, such as answers that were wrong."""

    @property
    def missed(self) -> list[str]:
        """The targets that are not met."""
        counts = {"wrong": self.wrong, "twice": self.twice, "lost": self.lost, "late": self.late}
        missed = [name for name, count in counts.items() if count]
        if self.held is not None and self.held < HELD:
            missed.append("held")
        if self.slowdown is not None and not self.slowdown <= SLOWDOWN:
            missed.append("p99")
        if self.recovery is not None and not self.recovery <= RECOVERY:
            missed.append("recovery")
        return missed + [figure.what for figure in self.figures if not figure.value <= figure.at_most]

    def under(self, name: str) -> str:
        """The line as it is printed, and lines for figures and notes below it."""
        verdict = f"MISSED: {', '.join(self.missed)}" if self.missed else "ok"
        measured = (
            *(_shown(self.held, "{:.0%}"), _shown(self.worst and self.worst * 1000, "{:.0f}")),
            *(_shown(self.slowdown, "{:.2f}"), self.wrong, self.twice, self.lost, self.late),
            _shown(self.recovery, "{:.2f} s"),
        )
        lines = [_COLUMNS.format(name, *measured, verdict)]
        return "\n".join([*lines, *(f"    {text}" for text in (*map(str, self.figures), *self.notes))])


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


Row: TypeAlias = Callable[[], Awaitable[Line]]
"""What measures a row."""


def table(lines: Mapping[str, Line]) -> str:
    return "\n".join([_COLUMNS.format(*_HEAD), *(line.under(name) for name, line in lines.items())])
