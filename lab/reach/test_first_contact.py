"""What the page says of a first contact is what a service sees."""

from __future__ import annotations

import pytest

from lab.reach.first_contact import CASES, PAGE, asked_by_check, table


@pytest.mark.parametrize("what", list(CASES)[:-1])  # the last takes ten seconds
async def test_the_page_says_what_a_service_is_asked(what: str) -> None:
    asked = await asked_by_check(CASES[what])
    assert table({what: asked}).splitlines()[-1] in PAGE.read_text().splitlines()


@pytest.mark.parametrize("what", [one for one in CASES if "lists with" in one or ("(4" in one and "404" not in one)])
async def test_who_lists_refuses_or_wants_a_pause_is_asked_once(what: str) -> None:
    assert (await asked_by_check(CASES[what])).total == 1
