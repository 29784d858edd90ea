"""What is written for people is whole: links lead somewhere, the changelog has its form, the floors are the code's."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.test_structure import FLOORS

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """The fragments of its headings, as the usual viewers make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_astray(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return not target.exists() or bool(anchor and anchor not in anchors_of(target))


def test_every_relative_link_leads_somewhere() -> None:
    links = {(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page))}
    relative = {(page, link) for page, link in links if not re.match(r"[a-z]+:", link)}
    assert len(relative) > 50
    assert {f"{page.relative_to(ROOT)}: {link}" for page, link in relative if leads_astray(page, link)} == set()


def test_decisions_are_numbered_once() -> None:
    numbers = Counter(page.name.partition("-")[0] for page in (ROOT / "docs" / "decisions").glob("*.md"))
    assert [number for number, times in numbers.items() if times > 1] == []


def releases() -> dict[str, str]:
    """What the changelog says, by release."""
    _, *parts = re.split(r"^## \[(.+?)\].*$", CHANGELOG, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("release", releases())
def test_a_release_has_each_heading_once_and_in_order_and_nothing_twice(release: str) -> None:
    before, *parts = re.split(r"^### (.+)$", releases()[release], flags=re.MULTILINE)
    headings, lists = parts[::2], parts[1::2]
    assert before.strip() == ""
    assert headings == [kind for kind in KINDS if kind in headings]
    assert all(entries.startswith("\n\n- ") for entries in lists), "an empty line, then the list"
    assert all(entries.endswith("\n\n") or entries is lists[-1] for entries in lists), "an empty line before a heading"
    entries = Counter(entry for text in lists for entry in re.findall(r"^- .+(?:\n  .+)*", text, re.MULTILINE))
    assert [entry for entry, times in entries.items() if times > 1] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md"])
def test_a_page_with_the_floors_has_those_that_the_imports_keep(name: str) -> None:
    """It is one line each: the number, the names, and behind two spaces what is there."""
    lines = (ROOT / name).read_text().splitlines()
    assert tuple(line.split("  ")[0] for line in lines if re.match("[0-9]+ [a-z_]", line)) == FLOORS


def test_contributing_names_every_folder_of_tests() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {file.parent.name for file in (ROOT / "tests").glob("*/*.py")}
    assert {folder for folder in folders if f"`tests/{folder}`" not in page} == set()


def test_contributing_names_every_command_of_the_makefile() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    commands = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [command for command in commands if command != "help" and f"make {command}" not in page] == []
