"""From figures to a table, and from the table to a verdict."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tests.bench.load import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

Rounds: TypeAlias = dict[str, list[Figures]]


@dataclass(frozen=True)
class Target:
    """What must hold of the median, and what the design hopes for."""

    at_least: float | None = None
    below: float | None = None
    goal: str = ""

    def met_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.below is None or value < self.below)

    def __str__(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return f"< {self.below:g}" if self.below is not None else "-"


@dataclass(frozen=True)
class Line:
    """One line of the table; ``values`` is None for what could not be measured, which counts as missed."""

    what: str
    values: Sequence[float] | None
    target: Target
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.values is not None and self.target.met_by(statistics.median(self.values))

    def __str__(self) -> str:
        measured = "not measured"
        if self.values is not None:
            middle, low, high = statistics.median(self.values), min(self.values), max(self.values)
            measured = f"{middle:.3g}{self.unit} ({low:.3g}-{high:.3g})"
        verdict = "ok" if self.met else "MISSED"
        return f"{self.what:<46}{measured:<26}{self.target!s:<10}{self.target.goal:<12}{verdict}"


def rate_ratios(rounds: Rounds, ours: str, theirs: str) -> list[float]:
    """Requests per second of one lane against another's, round by round."""
    return [a.rate / b.rate for a, b in zip(rounds[ours], rounds[theirs], strict=True)]


def cpu_ratios(rounds: Rounds, ours: str, theirs: str) -> list[float]:
    """CPU per request of one lane against another's, round by round."""
    return [a.cpu / b.cpu for a, b in zip(rounds[ours], rounds[theirs], strict=True)]


def lanes_table(rounds: Rounds) -> str:
    """What every lane did, as medians of its rounds."""
    head = f"{'lane':<22}{'CPU us/request':>22}{'requests/s':>12}{'p50 us':>10}{'p99 us':>10}{'waited':>9}"
    rows = [head]
    for name, figures in rounds.items():
        cpu = [f.cpu for f in figures]
        spread = f"{statistics.median(cpu):.0f} ({min(cpu):.0f}-{max(cpu):.0f})"
        columns = zip(*((f.rate, f.p50, f.p99, f.waited) for f in figures), strict=True)
        rate, p50, p99, waited = map(statistics.median, columns)
        rows.append(f"{name:<22}{spread:>22}{rate:>12.0f}{p50:>10.0f}{p99:>10.0f}{waited:>9.0%}")
    return "\n".join(rows)


def lines_table(lines: Sequence[Line]) -> str:
    head = f"{'what':<46}{'median (min-max)':<26}{'target':<10}{'design':<12}verdict"
    return "\n".join([head, *map(str, lines)])
