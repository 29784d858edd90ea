"""What `check` says of a first URL that does not lead to a service that it can list."""

from __future__ import annotations

from tests.mistakes.contact.__main__ import page
from tests.mistakes.contact.table import PAGE, ROWS, faults, judged


async def test_few_first_contacts_mislead_and_most_name_the_remedy() -> None:
    verdicts = await judged()
    wrong = [f"{one.word}: {one.row.name}\n{one.told.text}" for one in verdicts if one.word != "remedy"]
    assert faults(verdicts) == [], "\n".join(wrong)
    assert PAGE.read_text(encoding="utf-8") == page(verdicts), "run `python -m tests.mistakes.contact`"


def test_there_are_at_least_100_and_each_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 100
