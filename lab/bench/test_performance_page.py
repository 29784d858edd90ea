"""docs/performance.md has the form that `make bench` gives it, and what makes it leaves nothing out. No figure is
judged here: the rows of `make bench` do that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.bench import lanes
from lab.bench.__main__ import plan
from lab.bench.load import Figures
from lab.bench.machine import Unusable
from lab.bench.page import MARK, PAGE, PLOTS, ROOT, TEXT, page, plots
from lab.bench.plots import plot
from lab.bench.profile import STAGES, shares_of, stage_of
from lab.bench.report import Line, Target
from lab.bench.rows import BOUNDS, TARGETS, Row, Run, guard, recorded_ratio

SVG = "{http://www.w3.org/2000/svg}"
LANES = [lane for table in lanes.TABLES.values() for lane in table]
LOOP = next(iter(STAGES))


def figures(cpu: float = 100.0) -> Figures:
    return Figures(rate=1e6 / cpu, cpu=cpu, waited=0.0, p50=1000, p99=2000, p999=3000)


def told(row: Row) -> dict[str, str]:
    target = {"must": str(row.target), "stretch": row.target.stretch_text}
    return {"what": row.what, "measured": "1.5 (1-2)", "verdict": "ok", "stretched": "reached", "why": "", **target}


@pytest.fixture
def results() -> dict[str, Any]:
    """What a run would have found in which the gateway takes 90 µs, and all others 100."""
    cpu = {lane: 90.0 if lane == lanes.GATEWAY else 100.0 for lane in LANES}
    one = {"rate": 0.0, "waited": 0.0, "p50": 1000, "p99": 2000, "p999": 3000}
    return {
        "lanes": {lane: [{**one, "cpu": value, "rate": 1e6 / value}] * 3 for lane, value in cpu.items()},
        "missing": {},
        "idle": dict.fromkeys(LANES, 60.0),
        "targets": [told(row) for row in TARGETS],
        "bounds": [told(row) for row in BOUNDS],
        "machine": {"processor": "any"},
        "profile": dict.fromkeys(STAGES, 1 / len(STAGES)),
        "unprofiled": "",
        "streams": [{"streams": count, "cpu": 100.0, "memory": 60.0} for count in lanes.STREAMS],
    }


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ .*$", text, re.MULTILINE)


def first_cells(text: str) -> set[str]:
    return set(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))


def test_the_page_has_the_sections_of_its_text_and_no_mark_is_left() -> None:
    made = PAGE.read_text()
    assert headings(made) == headings(TEXT.read_text())
    assert not MARK.search(made)


def test_the_page_has_each_lane_and_each_row_by_the_name_that_the_bench_gives_it() -> None:
    cells = first_cells(PAGE.read_text())
    assert {*LANES, *(row.what for row in (*TARGETS, *BOUNDS))} <= cells


def test_the_text_of_the_page_has_a_place_for_each_table(results: dict[str, Any]) -> None:
    marks = MARK.findall(TEXT.read_text())
    others = {"targets", "bounds", "machine", "memory", "profile", "streams", "missing"}
    assert sorted(marks) == sorted({*lanes.TABLES, *others, *(f"plot-{name}" for name in plots(results))})


def test_each_plot_of_the_page_is_there(results: dict[str, Any]) -> None:
    shown = re.findall(r"\]\(performance/(\w+)\.svg\)", PAGE.read_text())
    assert sorted(shown) == sorted(plots(results)) == sorted(file.stem for file in PLOTS.glob("*"))
    for name in shown:
        ElementTree.parse(PLOTS / f"{name}.svg")


def test_the_page_shows_figures_beside_those_of_the_bare_proxy(results: dict[str, Any]) -> None:
    made = page(results, TEXT.read_text())
    assert f"| {lanes.GATEWAY} | 90 (90-90) | 11,111 | 1.0 | 2.0 | 3.0 | 0.90 | 1.11 |" in made
    assert "Everything was measured." in made


def test_a_lane_that_did_not_run_is_on_the_page_with_the_reason(results: dict[str, Any]) -> None:
    del results["lanes"][lanes.CONTEXTFORGE]
    results["missing"][lanes.CONTEXTFORGE] = "pip\n/any/where/bin/pip failed"
    made = page(results, TEXT.read_text())
    assert f"| {lanes.CONTEXTFORGE} | not measured |" in made
    assert f"| {lanes.CONTEXTFORGE} | pip pip failed |" in made


def test_a_plot_has_a_dot_for_each_value_and_says_what_was_not_measured() -> None:
    drawn = plot("A & B", "tools", "µs", ["1", "2", "3"], {"one": [1.0, None, 4.0], "other": [None] * 3})
    root = ElementTree.fromstring(drawn)
    dots = root.findall(f"{SVG}circle")
    assert [dot.findtext(f"{SVG}title") for dot in dots] == ["1", "4"]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"A & B", "tools", "µs", "1", "2", "3", "one", "other (not measured)"} <= set(texts)
    heights = [float(dot.attrib["cy"]) for dot in dots]
    assert heights[0] > heights[1]


def test_the_guard_fails_where_a_call_costs_over_fifteen_percent_more_than_was_recorded(tmp_path: Path) -> None:
    row = guard(0.8)

    def against_bare(ratio: float) -> Line:
        rounds = {lanes.GATEWAY: [figures(100 * ratio)] * 3, lanes.BARE: [figures()] * 3}
        return row.line(Run(rounds, 0, tmp_path))

    assert against_bare(0.8 * 1.14).met
    assert not against_bare(0.8 * 1.16).met


def test_the_recorded_ratio_is_one_that_can_be_exceeded() -> None:
    assert 0 < recorded_ratio() < 10


def test_a_row_whose_lane_is_missing_counts_as_missed_and_says_why(tmp_path: Path) -> None:
    run = Run({lanes.GATEWAY: [figures()]}, 0, tmp_path, missing={lanes.BARE: "no port"})
    line = TARGETS[0].line(run)
    assert (line.met, line.why, line.measured) == (False, "no port", "not measured")


def test_a_row_that_cannot_be_measured_loses_no_other(tmp_path: Path) -> None:
    def measure(_: Run) -> list[float]:
        raise Unusable("too few files")

    line = Row("any", Target(1), measure).line(Run({}, 0, tmp_path))
    assert (line.met, line.why) == (False, "Unusable: too few files")


def test_a_stretch_is_judged_the_same_way_round_as_what_must_hold() -> None:
    least, most = Target(1.1, stretch=1.5), Target(at_most=0.9, stretch=0.65)
    assert [(least.met_by(v), least.stretched_by(v)) for v in (1.0, 1.1, 1.5)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert [(most.met_by(v), most.stretched_by(v)) for v in (1.0, 0.9, 0.65)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert (str(least), least.stretch_text, str(most), most.stretch_text) == (">= 1.1", ">= 1.5", "<= 0.9", "<= 0.65")


def test_the_targets_of_speed_are_those_of_decision_50() -> None:
    promised = {
        "tools/call / bare proxy, requests/s": ">= 1.1 >= 1.5",
        "tools/call / bare proxy, CPU": "<= 0.9 <= 0.65",
        "tools/call / FastMCP's best mode, requests/s": ">= 15 >= 18",
        "tools/call / FastMCP's newest mode, requests/s": ">= 16 >= 21",
        "tools/call / Python SDK + httpx2, requests/s": ">= 11 >= 18",
        "TypeScript SDK 2's server / tools/call, CPU": ">= 1.7 >= 2.5",
        "tools/list of 20 / static, requests/s": ">= 0.6 >= 0.9",
        "added to 20 ms at 50 connections, p50": "<= 1.2 <= 0.8",
        "added to 20 ms at 50 connections, p99": "<= 9 <= 4",
        "added to 20 ms in the first second, p99": "<= 20 <= 9",
        "shared limit's cost on a call, CPU": "<= 20 <= 5",
        "2 workers / 1 worker, requests/s": ">= 1.3 >= 1.5",
        "memory, idle": "<= 85 <= 60",
        "memory of an idle stream": "<= 16000 <= 12000",
        "memory of a cached token": "<= 2000 <= 1300",
    }
    assert {row.what: f"{row.target} {row.target.stretch_text}" for row in TARGETS} == promised
    page = next((ROOT / "docs" / "decisions").glob("0050-*.md")).read_text()
    assert [row.what for row in TARGETS if f"| {row.what} | {row.target} |" not in page] == []


def test_a_row_compares_the_rounds_that_both_lanes_ran_in(tmp_path: Path) -> None:
    rounds = {lanes.GATEWAY: [figures(50)] * 5, lanes.BARE: [figures()] * 3}
    assert TARGETS[0].line(Run(rounds, 0, tmp_path)).values == [2.0] * 3


def test_lanes_that_decide_run_in_five_rounds_and_what_is_added_is_measured_for_ten_seconds() -> None:
    whole, quick = plan([]), plan(["--quick"])
    assert (whole.rounds, whole.deciding, quick.deciding) == (3, 5, 5)
    named = (lanes.SLOW, lanes.SLOW_DIRECT, lanes.BURST, lanes.GATEWAY)
    assert [whole.seconds(lane) for lane in named] == [10, 10, 1, 2]
    assert lanes.TYPESCRIPT in lanes.QUICK


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (["run (gateway/process/serving.py:9)", "run (asyncio/runners.py:118)"], LOOP),
        (["run (asyncio/runners.py:118)", "call_soon (uvloop/loop.pyx:9)"], LOOP),
        (
            [
                "run (asyncio/runners.py:118)",
                "_serve (gateway/http_server/connection.py:60)",
                "check (gateway/auth/tokens.py:3)",
            ],
            "token",
        ),
        (["post (gateway/web/mcp.py:3)", "dump (gateway/jsonrpc/__init__.py:8)", "encode (structlog/x.py:1)"], "JSON"),
        (["new (gateway/something.py:3)"], "other parts of the gateway"),
    ],
)
def test_a_sample_belongs_to_the_innermost_part_of_the_gateway(frames: list[str], stage: str) -> None:
    assert stage_of(frames) == stage


def test_the_shares_of_all_stages_are_the_whole_and_too_few_samples_are_none() -> None:
    found = shares_of(["run (asyncio/runners.py:118) 300", "check (gateway/auth/tokens.py:3) 100"])
    assert (found[LOOP], found["token"], sum(found.values())) == (0.75, 0.25, 1.0)
    with pytest.raises(Unusable, match="only 3 times"):
        shares_of(["run (asyncio/runners.py:118) 3"])


def test_the_stages_name_code_that_is_there() -> None:
    files = [f"{file.relative_to(ROOT)}" for file in (ROOT / "gateway").rglob("*.py")]
    for stage, paths in STAGES.items():
        for path in paths:
            assert any(file.startswith(path) for file in files), f"{stage}: {path}"


def test_the_peers_of_npm_are_locked() -> None:
    folder = ROOT / "lab" / "bench" / "peers" / "node"
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    assert json.loads((folder / "package-lock.json").read_text())["packages"][""]["dependencies"] == wanted
