"""Run the cases and make docs/troubleshooting.md of what they print."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.mistakes.reading import read_sections
from tests.mistakes.row import Row
from tests.program import run
from tests.troubleshooting.places import Places, started


class Case(Row, frozen=True, kw_only=True):
    """Hold one mistake; the page shows its remedy."""

    remedy: str = ""


SECTIONS: Final = read_sections(Path(__file__).with_name("cases.yaml"), Case)
PAGE: Final = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
# What the page says in place of the ports of one run.
_PORTS: Final = {"closed": 9, "taken": 8080, "tls": 8443, "redis": 6379}
_PROGRESS: Final = re.compile(r"^http\S+: (?:contacting|asking) .* …\n", re.MULTILINE)
FINGERPRINT: Final = re.compile("(?:[0-9A-F]{2}:){31}[0-9A-F]{2}")
_DATE: Final = re.compile(r"\b20(?:2[1-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_HEAD: Final = """\
# Troubleshooting

First mistakes, and what the command line prints for each.
`check` names one cause and one thing to do next; a listing's questions with the same answer are one line.

This page is made by `python -m tests.troubleshooting`: it starts a real service for each row, in that state.
In the rows, the service is on port 8000, and files are in `/etc/gateway`.
"""


class Printed(NamedTuple):
    """What a case came to; ``text`` has what changes from run to run replaced."""

    case: Case
    code: int
    text: str


def run_cases() -> Iterator[tuple[str, list[Printed]]]:
    """Yield the name of each section, and what its cases printed."""
    with tempfile.TemporaryDirectory() as directory, started(Path(directory)) as places:
        for title, cases in SECTIONS.items():
            yield title, asyncio.run(_run(cases, places))


async def _run(cases: tuple[Case, ...], places: Places) -> list[Printed]:
    """Run the cases at once: most of their time is spent waiting."""
    ran = await asyncio.gather(*(run(*case.arguments(places.names()), **case.environ) for case in cases))
    return [Printed(case, one.code, normalized(one.err, places)) for case, one in zip(cases, ran, strict=True)]


def normalized(text: str, places: Places) -> str:
    """Return what was printed without what differs from run to run: ports, folders, times, progress."""
    for name, port in places.ports.items():
        text = re.sub(rf"\b{port}\b", str(_PORTS.get(name, 8000)), text)
    text = _PROGRESS.sub("", text).replace(str(places.directory), "/etc/gateway")
    text = FINGERPRINT.sub("5F:1D:…:A9", text)
    return _DATE.sub("2026-11-21T12:00:00Z", text).strip()


def rendered(sections: Iterable[tuple[str, list[Printed]]]) -> str:
    """Return the page."""
    lines = [_HEAD]
    for title, rows in sections:
        lines.append(f"## {title}\n\n| mistake | printed |\n|---|---|")
        lines += [f"| {row.case.name} | {_cell(row.text)} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return "<br>".join(f"`{' '.join(line.split())}`".replace("|", "\\|") for line in text.splitlines() if line.strip())
