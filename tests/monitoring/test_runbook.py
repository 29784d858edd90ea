"""docs/operating.md is true to the rules: a section for each alert and no other, its times, and metrics that exist."""

from __future__ import annotations

import re

import pytest

from tests.monitoring import RULES, alerts
from tests.monitoring.test_names import LABELS, family

PAGE = (RULES.parents[2] / "docs" / "operating.md").read_text()
SECTIONS = {
    section.partition("\n")[0]: section.partition("\n")[2].partition("\n## ")[0] for section in PAGE.split("\n### ")[1:]
}


def test_the_page_has_a_section_for_each_alert_in_the_order_of_the_rules() -> None:
    assert [*SECTIONS] == [*alerts()]


@pytest.mark.parametrize("name", alerts())
def test_a_section_says_what_it_means_where_to_look_and_what_to_do(name: str) -> None:
    assert re.findall(r"^- \*\*(Means\.|Look at|Do\.)", SECTIONS[name], re.MULTILINE) == ["Means.", "Look at", "Do."]


@pytest.mark.parametrize("name", [name for name, rule in alerts().items() if rule.get("for", "1m") != "1m"])
def test_a_section_says_for_how_long_the_alert_waited(name: str) -> None:
    """Alerts that compare with an hour, a day or 90 minutes before say that instead."""
    minutes = alerts()[name]["for"].removesuffix("m")
    means = " ".join(SECTIONS[name].split("- **Look at")[0].split())
    assert f"or {minutes} minutes" in means or re.search(r"an hour ago|90 minutes|14 days", means)


def test_every_metric_of_the_page_is_exported() -> None:
    named = set(re.findall(r"\b(?:mcp_gateway|mcp_server|rpc_client)_\w+\b", PAGE))
    assert len(named) > 8
    assert [metric for metric in sorted(named) if family(metric) not in LABELS] == []
