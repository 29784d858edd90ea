"""The table of ``make reach``, its place in docs/reach.md, and the targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lab.reach.measure import NOT_COUNTED, Measured

LEAST_SERVICES: Final = 16
LEAST_WITHOUT_FILE: Final = 0.9
LEAST_TYPED: Final = 0.5
LEAST_CALLS: Final = 100
"""Calls of one row, all of them right."""

BEGIN: Final = "<!-- make reach writes this table -->"
END: Final = "<!-- end of the table -->"
_HEAD: Final = ("service", "version", "class", "tools", "typed", "calls right")


def table(rows: Sequence[Measured]) -> str:
    """Return the table in Markdown, and a sentence that sums it up."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (_HEAD, ("---",) * len(_HEAD), *map(_cells, rows))]
    return "\n".join([*lines, "", summary(rows)])


def _cells(row: Measured) -> tuple[str, ...]:
    return (
        row.service,
        row.version,
        row.kind,
        str(row.tools),
        f"{row.typed} of {row.arguments}",
        f"{row.right} of {row.made}",
    )


def summary(rows: Sequence[Measured]) -> str:
    right, made = sum(row.right for row in rows), sum(row.made for row in rows)
    return (
        f"Over HTTP {_without_file(rows)} of {len(_counted(rows))} services need no file written by hand, and "
        f"{_typed_alone(rows)} are typed from the URL alone. Of all, {right:,} of {made:,} calls were right."
    )


def missed(rows: Sequence[Measured]) -> Iterator[str]:
    """Yield each target that is missed. What a listing has does not depend on how it comes, so the targets of listings
    are those of the services over HTTP."""
    most = len(_counted(rows))
    if most < LEAST_SERVICES:
        yield f"{most} services, and not at least {LEAST_SERVICES}"
    if _without_file(rows) < LEAST_WITHOUT_FILE * most:
        yield f"{_without_file(rows)} of {most} need no file, and not at least {LEAST_WITHOUT_FILE:.0%}"
    if _typed_alone(rows) < LEAST_TYPED * most:
        yield f"{_typed_alone(rows)} of {most} are typed from the URL alone, and not at least {LEAST_TYPED:.0%}"
    for row in rows:
        if row.kind == "no":
            yield f"{row.service} cannot be used"
        elif row.right < max(row.made, 0 if row.kind == "mistake" else LEAST_CALLS):
            yield f"{row.service}: {row.right} of {row.made} calls right"


def with_table(page: str, text: str, first: str = BEGIN, last: str = END) -> str:
    """Return a page with the text in the marked place. Raise ValueError where the page has no such place."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"docs/reach.md has no {first} … {last}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _counted(rows: Sequence[Measured]) -> list[Measured]:
    """Return the rows of services that can be found, and that name no other wire."""
    return [row for row in rows if row.kind not in NOT_COUNTED and ", " not in row.service]


def _without_file(rows: Sequence[Measured]) -> int:
    return sum(row.kind in ("URL alone", "one hint") for row in _counted(rows))


def _typed_alone(rows: Sequence[Measured]) -> int:
    return sum(row.kind == "URL alone" and row.is_typed for row in _counted(rows))
