"""The official suites find nothing in the gateway but what a server with tools alone does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.stage import conform, operator_knobs
from tests.conformance.suite import PATIENCE, RUNS, Check, Expectations, Report, Run, cells, judge

PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text().splitlines()


@pytest.mark.timeout(PATIENCE + 30)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
async def test_the_official_suite_finds_nothing_unexpected(run: Run, tmp_path: Path) -> None:
    report = await conform(run, tmp_path)
    assert report.unexpected == ()
    assert report.stale == ()
    assert report.passed > 0
    assert list(cells(report)) in [line.split() for line in PAGE], "docs/conformance.md is of another time"


def test_the_page_names_the_knobs_that_the_figures_take() -> None:
    """The knobs are read from the fixture: without some of them an operator gets other figures."""
    start = PAGE.index("with these knobs of the operator:") + 1
    named = PAGE[start : PAGE.index("```", start)]
    assert named == [f"  {knob}" for knob in operator_knobs()]
    assert {"auth.mode: off", "mcp.heartbeat: 50ms"} <= set(operator_knobs())


GOOD = Check("ping", "ping", "SUCCESS")
BAD = Check("tools-list", "tools-name", "FAILURE", "no name")
SAID = "\n=== Running scenario: ping ===\n...\n\n=== Running scenario: tools-list ===\n..."


def judged(*checks: Check, failing: tuple[str, ...] = (), skipped: tuple[str, ...] = (), code: int = 0) -> Report:
    return judge("a revision", list(checks), Expectations(failing, skipped), SAID, code)


@pytest.mark.parametrize("entry", ["tools-list", "tools-list:tools-name"])
def test_an_expected_failure_is_no_complaint(entry: str) -> None:
    report = judged(GOOD, BAD, failing=(entry,))
    assert report.good
    assert (report.scenarios, report.passed, report.expected) == (2, 1, 1)


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED"])
def test_what_fails_or_is_skipped_without_being_expected_is_told_with_its_message(status: str) -> None:
    report = judged(GOOD, Check("tools-list", "tools-name", status, "no name"), failing=("tools-list:other",))
    assert report.unexpected == (f"tools-list:tools-name {status}: no name",)


def test_an_expectation_that_no_failing_check_meets_is_stale() -> None:
    report = judged(
        GOOD, BAD, failing=("tools-list", "ping", "absent:check"), skipped=("tools-list:tools-name",), code=1
    )
    assert report.unexpected == ()
    assert report.stale == ("ping", "absent:check", "tools-list:tools-name")


def test_a_scenario_that_broke_off_is_a_failure() -> None:
    assert judged(GOOD).unexpected == ("tools-list: FAILURE: broke off",)


def test_an_exit_code_without_a_cause_is_not_lost() -> None:
    (complaint,) = judged(GOOD, BAD, failing=("tools-list",), code=1).unexpected
    assert complaint.startswith("the suite ended with exit code 1.")
    assert complaint.endswith(SAID)


def test_a_suite_that_ran_nothing_is_no_success() -> None:
    assert not judge("a revision", [], Expectations(), "", 0).good
