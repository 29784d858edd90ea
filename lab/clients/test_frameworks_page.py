"""The page on clients says of each agent framework what ``make clients`` holds it to."""

from __future__ import annotations

from pathlib import Path

from lab.clients.frameworks import ABILITIES, FRAMEWORKS, LEGEND
from lab.clients.frameworks import REQUIREMENTS as OF_FRAMEWORKS
from tests.clients.environments import REQUIREMENTS

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()


def test_the_page_has_a_row_for_each_framework_with_its_words() -> None:
    rows = [(row.client, row.revision, *map(row.word, ("error", "null", "nested", "page"))) for row in FRAMEWORKS]
    assert [row for row in rows if f"| {' | '.join(row)} |\n" not in PAGE] == []
    assert [row.client for row in FRAMEWORKS if PAGE.count(f"\n| {row.client} |") != 2] == []


def test_each_word_of_a_framework_is_an_ability_and_is_explained() -> None:
    for row in FRAMEWORKS:
        assert row.words.keys() <= set(ABILITIES)
        for word in row.words.values():
            assert f"| {word} |" in PAGE
            assert word in LEGEND


def test_each_requirement_of_a_framework_is_pinned() -> None:
    files = [*sorted(REQUIREMENTS.glob("*.txt")), *sorted(OF_FRAMEWORKS.glob("*.txt"))]
    lines = [(file.name, line) for file in files for line in file.read_text().splitlines() if not line.startswith("#")]
    assert len(files) == 11
    assert [(name, line) for name, line in lines if "==" not in line] == []
