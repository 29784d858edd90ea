"""Write the table of errors in docs/http.md from the classes of ``gateway/errors.py``: ``python -m tests.error_table``.

A row is a class whose docstring says where it is raised. ``make config`` runs this.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway import errors
from gateway.errors import GatewayError, ToolFault

PAGE: Final = Path(__file__).parents[1] / "docs" / "http.md"
BEGIN: Final = "<!-- make config writes these tables from gateway/errors.py -->"
END: Final = "<!-- end of the tables -->"
ROW: Final = re.compile(r"Raised where (?P<when>.+)\. A client should (?P<advice>.+)\.")
_HEAD: Final = ("code on REST", "HTTP", "JSON-RPC", "when", "what a client should do")
_MESSAGES: Final = "**The message cannot be served.** On MCP and `/jsonrpc` this is a JSON-RPC error."
_REFUSED: Final = "**The request is refused.** The HTTP status is the same on every path, except within a batch."
_FAULTS: Final = "**A tool call failed.** On MCP this is a result with `isError: true` and HTTP 200."


def classes() -> list[type[GatewayError]]:
    """Return every error, in the order of the file."""
    return [
        found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, errors.GatewayError)
    ]


def described(error: type[GatewayError]) -> re.Match[str] | None:
    """Return when an error is raised, and what a client should do; None for a base of others."""
    return ROW.fullmatch(" ".join((error.__doc__ or "").split()))


def tables() -> str:
    """Return the three tables in Markdown."""
    groups: dict[str, list[type[GatewayError]]] = {_MESSAGES: [], _REFUSED: [], _FAULTS: []}
    for error in classes():
        groups[_FAULTS if issubclass(error, ToolFault) else _REFUSED if error.refuses else _MESSAGES].append(error)
    return "\n\n".join(f"{title}\n\n{_table(group)}" for title, group in groups.items())


def _table(group: list[type[GatewayError]]) -> str:
    return "\n".join(_line(cells) for cells in (_HEAD, ("---",) * len(_HEAD), *_rows(group)))


def _rows(group: list[type[GatewayError]]) -> Iterator[tuple[str, ...]]:
    for error in group:
        if found := described(error):
            yield f"`{error.slug}`", str(error.status), str(error.code), found["when"], found["advice"]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |".replace("``", "`")


def with_tables(page: str) -> str:
    """Return the page with new tables in the marked place. Raise ValueError if it has no such place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no {BEGIN} … {END}")
    return f"{before}{begin}\n\n{tables()}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
