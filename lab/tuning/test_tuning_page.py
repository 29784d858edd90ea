"""docs/tuning.md: each row has a metric and a knob that exist, values that it takes, and a figure for each."""

from __future__ import annotations

import re
from typing import Final

import pytest

from gateway.config.source import load_settings
from gateway.telemetry.families import BY_NAME
from lab.tuning.rows import ROWS, Row
from lab.tuning.table import BEGIN, END, PAGE

SECRET: Final = "server.secret_file=/run/secrets/gateway"
NEEDED: Final = {
    "catalog.max_stale": ("catalog.ttl=200ms",),
    "store.url": (SECRET,),
    "server.workers": (SECRET, "store.url=redis://127.0.0.1:6379/0"),
}
TABLE: Final = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def test_there_are_at_least_15_knobs() -> None:
    assert len({row.knob for row in ROWS}) >= 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.knob)
def test_a_row_names_a_metric_that_exists_and_a_knob_that_takes_its_values(row: Row) -> None:
    assert row.metric in BY_NAME
    for value in row.values:
        knob = f"{row.knob}={value.replace('…', '127.0.0.1:6379/0')}"
        if "*" in row.knob:
            knob = _listed(row.knob, value)
        load_settings(
            None, ["backend.url=http://127.0.0.1:1/", "auth.mode=off", *NEEDED.get(row.knob, ()), knob], environ={}
        )


def _listed(knob: str, value: str) -> str:
    """Return the setting of a knob below a pattern of tools, or below an issuer."""
    above, below = knob.split(".*.")
    if above == "auth.issuers":
        section, name = below.split(".")
        inner = f"{{client_id: gw, client_secret: s, {name}: {value}}}"
        return f"{above}=[{{issuer: https://login.example.com, {section}: {inner}}}]"
    return f"{above}={{'*': {{{below}: {value}}}}}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.knob)
def test_the_page_has_a_figure_for_each_value(row: Row) -> None:
    (line,) = re.findall(rf"(?m)^\| {re.escape(row.symptom)} \| `{row.metric}` \| `{re.escape(row.knob)}` \|.*$", TABLE)
    for value in row.values:
        assert re.search(rf"<br>`{re.escape(value)}`: [^<|]+", line), value
