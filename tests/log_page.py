"""Write docs/logs.md's table of events from ``gateway/telemetry/events.py``: ``python -m tests.log_page``.

``make config`` runs this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.telemetry.events import EVENTS, FIELDS

PAGE: Final = Path(__file__).parents[1] / "docs" / "logs.md"
BEGIN: Final = "<!-- make config writes these tables from gateway/telemetry/events.py -->"
END: Final = "<!-- end of the tables -->"


def tables() -> str:
    """Return the table of events and that of their fields, in Markdown."""
    events = [
        (f"`{event.name}`", event.level, " ".join(f"`{name}`" for name in event.fields.split()), event.meaning)
        for event in EVENTS
    ]
    fields = [(f"`{name}`", meaning) for name, meaning in FIELDS.items()]
    return f"{_table(('event', 'level', 'fields', 'meaning'), events)}\n\n{_table(('field', 'meaning'), fields)}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows))


def page() -> str:
    """Return the page as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
