"""The table of docs/tuning.md, and its place there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lab.tuning.rows import Row

PAGE: Final = Path(__file__).parents[2] / "docs" / "tuning.md"
BEGIN: Final = "<!-- python -m lab.tuning writes this table -->"
END: Final = "<!-- end of the table -->"
_HEAD: Final = ("symptom", "metric", "knob", "measured", "what more of it costs")


def table(measured: Iterable[tuple[Row, Sequence[str]]]) -> str:
    """Return the table in Markdown. Each row comes with a figure for each of its values."""
    lines = [_line(_HEAD), _line(("---",) * len(_HEAD))]
    for row, figures in measured:
        effects = [f"`{value}`: {figure}" for value, figure in zip(row.values, figures, strict=True)]
        cells = (row.symptom, f"`{row.metric}`", f"`{row.knob}`", "<br>".join([f"{row.where}:", *effects]), row.price)
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, text: str) -> str:
    """Return the page with the text in the marked place. Raise ValueError if it has no such place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no {BEGIN} … {END}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
