"""Each first mistake is told with its one cause and the one next step; docs/troubleshooting.md shows it as printed.

The cases run in one process for all tests: it starts the services once.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.each import each
from tests.troubleshooting.page import PAGE, SECTIONS, Case
from tests.waiting import PATIENCE

CASES = [case for cases in SECTIONS.values() for case in cases]
# What Python, and libraries of ours, would say.
PYTHON = re.compile(r"Traceback|[a-z]Error\b|Exception|<class|\bNone\b|\bdict\b|Input should|\('|aiohttp|pydantic")


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.troubleshooting", "--print"]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr.decode()
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


@each("case", CASES, ids=lambda case: case.name)
def test_a_first_mistake_is_told_with_its_cause(printed: dict[str, Any], case: Case) -> None:
    code, text = printed["rows"][case.name]
    assert (code, case.thing in text) == (case.code, True), text
    assert not PYTHON.search(text), text


@each("case", [case for case in CASES if case.code == 3], ids=lambda case: case.name)
def test_a_service_without_a_listing_has_one_cause_and_one_next_step(printed: dict[str, Any], case: Case) -> None:
    lines = printed["rows"][case.name][1].splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["cause", "next"]
    assert sum(line.startswith(("cause", "next")) for line in lines) == 2
    assert len(lines) <= 7, "questions with the same answer are one line"


def test_the_page_shows_what_is_printed(printed: dict[str, Any]) -> None:
    assert PAGE.read_text(encoding="utf-8") == printed["page"], "run `python -m tests.troubleshooting`"


def test_the_page_has_at_least_20_mistakes_of_different_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 20
