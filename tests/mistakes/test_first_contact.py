"""What `check` says of a first URL that does not lead to a service that it can list."""

from __future__ import annotations

import pytest

from tests.mistakes.contact.__main__ import HEAD, lines
from tests.mistakes.contact.table import PAGE, ROWS, TABLES, faults, judged

SHOWN = PAGE.read_text(encoding="utf-8").removeprefix(HEAD).splitlines(keepends=True)
BY_NAME = {line.split(" | ")[0].removeprefix("| "): line for line in SHOWN}


@pytest.mark.parametrize("table", TABLES)
async def test_few_first_contacts_mislead_and_most_name_the_remedy(table: str) -> None:
    verdicts = await judged(TABLES[table])
    wrong = [f"{one.word}: {one.row.name}\n{one.told.text}" for one in verdicts if one.word != "remedy"]
    assert faults(verdicts) == [], "\n".join(wrong)
    said = {line.split(" | ")[0].removeprefix("| "): line for line in lines(verdicts)}
    rests = {line.split(" | ", 1)[1] for line in SHOWN}
    # A line of another table may have said the same before: then the page names that one.
    stale = [
        line for name, line in said.items() if BY_NAME.get(name, line) != line or line.split(" | ", 1)[1] not in rests
    ]
    assert stale == [], "run `python -m tests.mistakes.contact`"


def test_the_page_shows_what_is_tried_and_nothing_else() -> None:
    assert PAGE.read_text(encoding="utf-8").startswith(HEAD)
    assert BY_NAME.keys() <= {row.name for row in ROWS}
    assert len(BY_NAME) == len(SHOWN) > 50


def test_there_are_at_least_100_and_each_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 100
