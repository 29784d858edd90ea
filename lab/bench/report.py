"""From figures to a table, and from the table to a verdict."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lab.bench.load import Figures

Rounds: TypeAlias = dict[str, list[Figures]]


@dataclass(frozen=True)
class Target:
    """What must hold of the median, and what it is stretched to: the same way round."""

    at_least: float | None = None
    at_most: float | None = None
    stretch: float | None = None

    def met_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def stretched_by(self, value: float) -> bool:
        if self.stretch is None:
            return False
        return value >= self.stretch if self.at_least is not None else value <= self.stretch

    def __str__(self) -> str:
        return self._text(self.at_most if self.at_least is None else self.at_least)

    @property
    def stretch_text(self) -> str:
        return self._text(self.stretch)

    def _text(self, value: float | None) -> str:
        return "-" if value is None else f"{'<=' if self.at_least is None else '>='} {value:g}"


@dataclass(frozen=True)
class Line:
    """One line of the table; ``values`` is None for what could not be measured, which counts as missed. ``why`` says
    why it could not."""

    what: str
    values: Sequence[float] | None
    target: Target
    unit: str = ""
    why: str = ""

    @property
    def met(self) -> bool:
        return self.values is not None and self.target.met_by(statistics.median(self.values))

    @property
    def measured(self) -> str:
        """The median, and the least and the greatest value."""
        if self.values is None:
            return "not measured"
        middle, low, high = (f"{value:.3g}" for value in (statistics.median(self.values), *ends(self.values)))
        return f"{middle}{self.unit}" + (f" ({low}-{high})" if len(self.values) > 1 else "")

    @property
    def verdict(self) -> str:
        return "ok" if self.met else "MISSED"

    @property
    def stretched(self) -> str:
        """Whether the stretch was reached; "" where there is none."""
        if self.target.stretch is None:
            return ""
        reached = self.values is not None and self.target.stretched_by(statistics.median(self.values))
        return "reached" if reached else "not reached"

    def __str__(self) -> str:
        target = f"{self.target!s:<10}{self.verdict:<8}{self.target.stretch_text:<10}{self.stretched}"
        return f"{self.what:<52}{self.measured:<26}{target}{f'  ({self.why})' if self.why else ''}".rstrip()


def ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def lanes_table(rounds: Rounds, missing: Mapping[str, str]) -> str:
    """What every lane did, as medians of its rounds."""
    head = f"{'lane':<52}{'CPU us/request':>22}{'requests/s':>12}{'p50 us':>9}{'p99 us':>9}{'p99.9 us':>9}{'waited':>9}"
    rows = [head]
    for name, figures in rounds.items():
        cpu = [f.cpu for f in figures]
        low, high = ends(cpu)
        spread = f"{statistics.median(cpu):.0f} ({low:.0f}-{high:.0f})"
        one = median(figures)
        rates = f"{one.rate:>12.0f}{one.p50:>9.0f}{one.p99:>9.0f}{one.p999:>9.0f}{one.waited:>9.0%}"
        rows.append(f"{name:<52}{spread:>22}{rates}")
    rows += [f"{name:<52}  not measured: {' '.join(why.split())[:200]}" for name, why in missing.items()]
    return "\n".join(rows)


def median(figures: Sequence[Figures]) -> Figures:
    """The median of each figure."""
    columns = zip(*((f.rate, f.cpu, f.waited, f.p50, f.p99, f.p999) for f in figures), strict=True)
    rate, cpu, waited, *latencies = map(statistics.median, columns)
    return Figures(rate, cpu, waited, *map(round, latencies))


def lines_table(lines: Sequence[Line]) -> str:
    head = f"{'what':<52}{'median (min-max)':<26}{'must':<10}{'':<8}{'stretch':<10}"
    return "\n".join([head, *map(str, lines)])
