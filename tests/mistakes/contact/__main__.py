"""``python -m tests.mistakes.contact`` writes docs/first-contact.md: what each row was told."""

from __future__ import annotations

import asyncio
import re

from tests.mistakes.contact.table import PAGE, Verdict, judged
from tests.troubleshooting.page import FINGERPRINT

HEAD = """# First contact

Where a first URL leads, and what `check` says of it. `python -m tests.mistakes.contact` makes this page: it starts
a server for each row, at 127.0.0.1:8000 in the texts. [troubleshooting.md](troubleshooting.md) has real programs.

| what is there | cause | next |
|---|---|---|
"""


def shown(text: str, host: str) -> str:
    """Return a text for a table, the same in each run: ``host`` is that of this run."""
    text = FINGERPRINT.sub("5F:1D:…:A9", text.replace(host, "127.0.0.1:8000"))
    return text.replace("|", "\\|").replace("<", "&lt;")


def lines(verdicts: list[Verdict]) -> list[str]:
    """Return the lines of the table. Rows that differ in nothing but the path are one, named after the first."""
    names: dict[str, str] = {}
    for verdict in verdicts:
        said = dict(re.findall(r"^(cause|next) +(.*)$", verdict.told.text, re.MULTILINE))
        if not said:
            continue
        cause, step = (shown(part, verdict.told.names["<host>"]) for part in said.values())
        cause, step = re.sub(r"but /\S+ is", "but … is", cause), re.sub(r"8000/\S+$", "8000/…", step)
        names.setdefault(f"| {cause} | {step} |\n", verdict.row.name)
    return [f"| {name} {rest}" for rest, name in names.items()]


def page(verdicts: list[Verdict]) -> str:
    """Return the page."""
    return HEAD + "".join(lines(verdicts))


if __name__ == "__main__":
    PAGE.write_text(page(asyncio.run(judged())), encoding="utf-8")
