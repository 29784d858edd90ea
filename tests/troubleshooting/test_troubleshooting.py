"""Each first mistake is told with its one cause and the one next step; docs/troubleshooting.md shows it as printed."""

from __future__ import annotations

import re

import pytest

from tests.each import each
from tests.troubleshooting.page import PAGE, SECTIONS, Case, Printed, rendered, run_cases

CASES = [case for cases in SECTIONS.values() for case in cases]
# What Python, and libraries of ours, would say.
PYTHON = re.compile(r"Traceback|[a-z]Error\b|Exception|<class|\bNone\b|\bdict\b|Input should|\('|aiohttp|pydantic")


@pytest.fixture(scope="module")
def sections() -> list[tuple[str, list[Printed]]]:
    return list(run_cases())


@pytest.fixture(scope="module")
def printed(sections: list[tuple[str, list[Printed]]]) -> dict[str, Printed]:
    return {row.case.name: row for _, rows in sections for row in rows}


@each("case", CASES, ids=lambda case: case.name)
def test_a_first_mistake_is_told_with_its_cause(printed: dict[str, Printed], case: Case) -> None:
    _, code, text = printed[case.name]
    assert (code, case.thing in text) == (case.code, True), text
    assert not PYTHON.search(text), text


@each("case", [case for case in CASES if case.code == 3], ids=lambda case: case.name)
def test_a_service_without_a_listing_has_one_cause_and_one_next_step(printed: dict[str, Printed], case: Case) -> None:
    lines = printed[case.name].text.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["cause", "next"]
    assert sum(line.startswith(("cause", "next")) for line in lines) == 2
    assert len(lines) <= 7, "questions with the same answer are one line"


def test_the_page_shows_what_is_printed(sections: list[tuple[str, list[Printed]]]) -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(sections), "run `python -m tests.troubleshooting`"


def test_the_page_has_at_least_20_mistakes_of_different_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 20
