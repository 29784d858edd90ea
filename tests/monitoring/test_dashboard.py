"""The dashboard is whole: its expressions are PromQL, its metrics exist, and it asks the questions of an operator."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.monitoring import DASHBOARD, promtool
from tests.monitoring.dashboard import dashboard, expressions
from tests.monitoring.panels import ROWS

MADE: dict[str, Any] = json.loads(DASHBOARD.read_text())


def test_the_file_is_fresh() -> None:
    assert DASHBOARD.read_text() == dashboard(), "stale: make config"


def test_its_rows_are_questions() -> None:
    rows = [panel["title"] for panel in MADE["panels"] if panel["type"] == "row"]
    assert rows == ["Is it up?", "Is it slow, and where?", "Who is refused?", "What changed?"]
    assert [title for title, panels in ROWS.items() if len(panels) < 6] == []


def test_every_expression_is_promql(tmp_path: Path) -> None:
    """promtool reads them as recording rules, with values for Grafana's variables."""
    values = {"$__rate_interval": "5m", "$job": ".+", "$service": ".*"}
    records = []
    for number, (_, expression) in enumerate(expressions()):
        for variable, value in values.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression
        records.append({"record": f"panel:{number}", "expr": expression})
    file = tmp_path / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": records}]}))
    code, said = promtool("check", "rules", str(file))
    assert code == 0, said
    assert f"{len(records)} rules found" in said


def test_every_expression_is_in_the_file() -> None:
    shown = {target["expr"] for panel in MADE["panels"] for target in panel.get("targets", ())}
    assert shown == {expression for _, expression in expressions()}


def test_no_panel_lies_over_another() -> None:
    covered: set[tuple[int, int]] = set()
    for panel in MADE["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not covered & cells, panel["title"]
        covered |= cells


def test_each_panel_says_what_to_conclude_and_has_a_title_of_its_own() -> None:
    panels = [panel for panel in MADE["panels"] if panel["type"] != "row"]
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert len({panel["id"] for panel in MADE["panels"]}) == len(MADE["panels"])
    assert [panel["title"] for panel in panels if not panel["description"].endswith(".")] == []
    assert [panel["title"] for panel in panels if {*panel["gridPos"]} != {"x", "y", "w", "h"}] == []


def test_a_legend_names_labels_that_the_expression_keeps() -> None:
    for title, panels in ((panel.title, panel.shows) for row in ROWS.values() for panel in row):
        for legend, expression in panels.items():
            for label in re.findall(r"\{\{(\w+)\}\}", legend):
                by = re.findall(r"by \(([^)]*)\)", expression)
                assert not by or any(label in kept.split(", ") for kept in by), f"{title}: {label}"
