"""The table of metrics in docs/metrics.md is that of ``gateway/telemetry/families.py``."""

from __future__ import annotations

import pytest

from gateway.telemetry.families import FAMILIES
from tests.metrics_table import PAGE, table, with_table


def test_the_page_has_the_table_that_make_config_would_write() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "docs/metrics.md is stale: make config"


def test_every_family_is_in_the_table_once() -> None:
    shown = table()
    assert {family.name: shown.count(f"| `{family.name}` |") for family in FAMILIES} == dict.fromkeys(
        (family.name for family in FAMILIES), 1
    )


def test_names_say_the_kind_of_a_family_as_prometheus_wants_it() -> None:
    assert [one.name for one in FAMILIES if (one.kind == "counter") != one.name.endswith("_total")] == []
    assert [one.name for one in FAMILIES if one.kind == "histogram" and not one.name.endswith("_seconds")] == []


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has no <!-- make config"):
        with_table("# Metrics\n")
