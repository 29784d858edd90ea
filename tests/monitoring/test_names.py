"""Rules and dashboard name what the gateway exports: metrics of a real scrape, with labels that they have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import aiohttp
import pytest

from gateway.telemetry.families import FAMILIES
from tests.fault.scripted import ScriptedBackend
from tests.monitoring import metrics_in, promtool, rules
from tests.monitoring.dashboard import expressions
from tests.program import serving
from tests.scrape import Scrape, scrape

LABELS = {family.name: {*family.labels} for family in FAMILIES}
RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
OURS = [("a rule", rule["expr"]) for rule in rules()] + [*expressions()]
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
"""What the client library of Prometheus adds."""
OF_PROMETHEUS = {"namespace", "job", "instance", "le"}


@pytest.fixture
async def scraped(backend: ScriptedBackend) -> Scrape:
    async with serving(backend.url) as (program, gateway), aiohttp.ClientSession() as session:
        assert (await gateway.call("modern", "add", {"a": 2, "b": 3})).value == {"sum": 5}
        return await scrape(session, (await program.logged("gateway started"))["admin_port"])


def family(metric: str) -> str:
    return metric if metric in LABELS else re.sub("_(bucket|sum|count)$", "", metric)


def selectors() -> Iterator[tuple[str, str, set[str]]]:
    """Each metric that an expression selects, with the labels of its matchers."""
    for title, expression in OURS:
        for metric, matchers in re.findall(r"\b([a-z_]\w*)\{([^}]*)\}", expression):
            yield title, metric, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))


def test_every_metric_is_exported_or_recorded() -> None:
    named = {(title, metric) for title, expression in OURS for metric in metrics_in(expression)}
    assert len(named) > 70
    known = {*LABELS, *PROCESS, *RECORDED}
    assert [pair for pair in sorted(named) if pair[1] not in known and family(pair[1]) not in known] == []


def test_a_matcher_names_a_label_of_its_metric() -> None:
    found = [one for one in selectors() if family(one[1]) in LABELS]
    assert len(found) > 50
    assert [one for one in found if one[2] - LABELS[family(one[1])] - OF_PROMETHEUS] == []


def test_a_sum_is_by_labels_of_its_metric() -> None:
    sums = [(title, *pair) for title, text in OURS for pair in re.findall(r"by \(([^)]*)\)\s*\(rate\((\w+)", text)]
    assert len(sums) > 20
    assert [one for one in sums if set(one[1].split(", ")) - LABELS[family(one[2])] - OF_PROMETHEUS] == []


async def test_a_real_scrape_has_every_metric_that_a_rule_needs(scraped: Scrape) -> None:
    """Also those without a line: their types are there."""
    there = set(re.findall(r"^# TYPE (\w+) ", scraped.text, re.MULTILINE))
    needed = {metric for rule in rules() for metric in metrics_in(rule["expr"])} - RECORDED.keys()
    assert len(needed) > 20
    assert [metric for metric in sorted(needed) if family(metric) not in there] == []


async def test_promtool_has_nothing_to_say_against_a_scrape(scraped: Scrape) -> None:
    code, said = promtool("check", "metrics", text=scraped.text)
    assert (code, said) == (0, "")
