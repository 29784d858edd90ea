"""The smallest of the six listings, measured as `make agents` does."""

from __future__ import annotations

from lab.agents.listings import LISTINGS
from lab.agents.measure import measure
from lab.agents.questions import read_questions


async def test_a_listing_is_measured_with_its_real_answers() -> None:
    questions = [one for one in read_questions() if one.listing == "drupal"]
    measured = await measure("drupal", LISTINGS["drupal"], questions)
    assert (measured.tools, measured.searches) == (9, False)
    assert [asked.fault for asked in measured.asked] == [""] * 4
    assert all(asked.rank and asked.is_whole for asked in measured.asked)
    missing = [
        judged for asked in measured.asked for judged in asked.tries if judged.wrong.mistake == "missing argument"
    ]
    assert [judged.is_right for judged in missing] == [True, True]
    assert missing[0].text == 'Invalid arguments: "nid" is a required property: integer'
