"""Write the table in docs/metrics.md from ``gateway/telemetry/families.py``: ``python -m tests.metrics_table``.

``make config`` runs this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.telemetry.families import FAMILIES

PAGE: Final = Path(__file__).parents[1] / "docs" / "metrics.md"
BEGIN: Final = "<!-- make config writes this table from gateway/telemetry/families.py -->"
END: Final = "<!-- end of the table -->"
_UNITS: Final = ("seconds", "bytes")
_MERGED: Final = {"sum": "sum", "max": "maximum", "min": "minimum"}


def table() -> str:
    """Return the table in Markdown."""
    head = ("name", "kind", "labels", "unit", "several workers", "what it says")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *_rows()))


def _rows() -> Iterator[tuple[str, ...]]:
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        unit = next((unit for unit in _UNITS if unit in family.name.split("_")), "")
        yield f"`{family.name}`", family.kind, labels, unit, _MERGED[family.merge], family.help


def with_table(page: str) -> str:
    """Return the page with a new table in the marked place. Raise ValueError if it has no such place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no {BEGIN} … {END}")
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
