"""The rules fire when they should and not otherwise, as promtool evaluates them, and each alert has its remedy."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from tests.each import each
from tests.monitoring import MANIFEST, RULES, alerts, groups, manifest, metrics_in, promtool, rules, shortened
from tests.monitoring.cases import CASES, Case, Series
from tests.unit.test_documents import anchors_of

ROOT = RULES.parents[2]
ALERTS: Final = alerts()
Looks: TypeAlias = list[dict[str, Any]]
"""Tests as promtool has them."""


def evaluated(name: str, series: Series, minute: int, expected: list[dict[str, Any]]) -> dict[str, Any]:
    """One test for promtool: what this alert is, that long after the series begin."""
    return {
        "name": f"{name} {minute}m",
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}],
    }


def complaints(folder: Path, tests: Looks, rules: Path = RULES) -> str:
    """What promtool has to complain about."""
    file = folder / "tests.json"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    code, said = promtool("test", "rules", str(file))
    return "" if code == 0 else said


def minutes(duration: str) -> int:
    assert duration.endswith("m")
    return int(duration[:-1])


def fired(name: str, case: Case) -> dict[str, Any]:
    rule = ALERTS[name]
    annotations = {**rule["annotations"], "summary": case.summary}
    return {"exp_labels": {**case.labels, **rule["labels"]}, "exp_annotations": annotations}


FIRE: Final = {name: [evaluated(name, case.fires, case.at, [fired(name, case)])] for name, case in CASES.items()}
QUIET: Final = {
    name: [evaluated(name, series, case.at, []) for series in case.quiet.values()] for name, case in CASES.items()
}
WAIT: Final = {
    name: [evaluated(name, CASES[name].fires, minutes(rule["for"]) - 1, [])]
    for name, rule in ALERTS.items()
    if minutes(rule.get("for", "0m")) > 1
}


@pytest.fixture(scope="module")
def of_all(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What promtool has to complain about all of them. A test that finds anything here asks for its alert alone.

    All are one run, but those of alerts that look back for hours: these are evaluated with the rules that they need.
    """
    folder = tmp_path_factory.mktemp("rules")
    looks = {name: [*FIRE[name], *QUIET[name], *WAIT.get(name, ())] for name in CASES}
    slow = {name: looks.pop(name) for name, case in CASES.items() if case.at > 120}
    said = [complaints(folder, [*itertools.chain(*looks.values())])]
    for name, tests in slow.items():
        (folder / "needed.json").write_text(json.dumps(needed(name)))
        said.append(complaints(folder, tests, folder / "needed.json"))
    return "".join(said)


def needed(name: str) -> dict[str, Any]:
    """The rules of an alert: itself, and those that record what its expression names."""
    wanted = {name, *metrics_in(ALERTS[name]["expr"])}
    return {
        "groups": [
            {**group, "rules": [rule for rule in group["rules"] if wanted & {rule.get("alert"), rule.get("record")}]}
            for group in groups()
        ]
    }


def test_nothing_is_wrong_with_all_alerts_together(of_all: str) -> None:
    assert of_all == ""


def test_the_rules_are_sound() -> None:
    code, said = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert code == 0, said


def test_every_alert_has_its_cases() -> None:
    assert list(CASES) == [*dict.fromkeys(CASES)]
    assert CASES.keys() == ALERTS.keys()
    assert [name for name, case in CASES.items() if not case.quiet] == []


@each("looks", FIRE)
def test_an_alert_fires_once_and_says_what_it_is_about(looks: Looks, of_all: str, tmp_path: Path) -> None:
    assert not of_all or complaints(tmp_path, looks) == ""


@each("looks", QUIET)
def test_an_alert_does_not_fire_without_its_cause(looks: Looks, of_all: str, tmp_path: Path) -> None:
    assert not of_all or complaints(tmp_path, looks) == ""


@each("looks", WAIT)
def test_an_alert_waits_before_it_wakes_anybody(looks: Looks, of_all: str, tmp_path: Path) -> None:
    """Where the cause is there from the first sample on. The keys' case is that of all others."""
    assert not of_all or complaints(tmp_path, looks) == ""


def test_no_gateway_at_all_is_an_alert_too(tmp_path: Path) -> None:
    name = "McpGatewayNotScraped"
    rule = ALERTS[name]
    annotations = {**rule["annotations"], "summary": "jsonrpc-mcp-gateway: no metrics for 5 minutes"}
    expected = {"exp_labels": rule["labels"], "exp_annotations": annotations}
    assert complaints(tmp_path, [evaluated(name, {'up{job="node"}': "1x30"}, 25, [expected])]) == ""


def test_keys_that_were_never_fetched_are_an_alert_too(tmp_path: Path) -> None:
    name = "McpGatewayIssuerKeysOld"
    rule, case = ALERTS[name], CASES[name]
    summary = case.summary.replace("are 1h 55m 0s old", "were never fetched")
    expected = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {**rule["annotations"], "summary": summary},
    }
    series = {one: values for one, values in case.fires.items() if "max_age" in one}
    assert complaints(tmp_path, [evaluated(name, series, 4, []), evaluated(name, series, 6, [expected])]) == ""


def test_a_gateway_with_one_service_has_no_name_for_it(tmp_path: Path) -> None:
    name = "McpGatewayBreakerOpen"
    rule = ALERTS[name]
    annotations = {**rule["annotations"], "summary": "a-jsonrpc-mcp-gateway: 1 circuit breakers are open"}
    expected = {"exp_labels": {"job": "a-jsonrpc-mcp-gateway", **rule["labels"]}, "exp_annotations": annotations}
    series = {'mcp_gateway_breaker_open{job="a-jsonrpc-mcp-gateway",service=""}': "1x30"}
    assert complaints(tmp_path, [evaluated(name, series, 25, [expected])]) == ""


def test_the_times_that_the_dashboard_shows_are_of_calls_of_all_replicas(tmp_path: Path) -> None:
    """Half the calls at one replica take up to 10 ms, those at the other up to 5 s; listings do not count."""
    call = 'namespace="mcp",job="g",service="crm",mcp_method_name="tools/call"'
    calls, exchanges = "mcp_server_operation_duration_seconds_bucket", "rpc_client_call_duration_seconds_bucket"
    quick, slow = 'instance="a"', 'instance="b"'
    series = {
        f'{calls}{{{call},{quick},le="0.01"}}': "0+60x30",
        f'{calls}{{{call},{quick},le="5"}}': "0+60x30",
        f'{calls}{{{call},{quick},le="+Inf"}}': "0+60x30",
        f'{calls}{{{call},{slow},le="0.01"}}': "0+0x30",
        f'{calls}{{{call},{slow},le="5"}}': "0+60x30",
        f'{calls}{{{call},{slow},le="+Inf"}}': "0+60x30",
        f'{calls}{{{call.replace("call", "list")},{quick},le="5"}}': "0+0x30",
        f'{calls}{{{call.replace("call", "list")},{quick},le="+Inf"}}': "0+6000x30",
    }
    series |= {one.replace(calls, exchanges): values for one, values in series.items() if "tools/call" in one}
    labels = '{job="g", namespace="mcp", service="crm"}'
    recorded = {
        "job_service:mcp_gateway_call_duration_seconds:p50_5m": 0.01,
        "job_service:mcp_gateway_call_duration_seconds:p99_5m": 4.9002,
        "job_service:rpc_client_call_duration_seconds:p99_5m": 4.9002,
    }
    looks = [
        {"expr": name, "eval_time": "25m", "exp_samples": [{"labels": name + labels, "value": value}]}
        for name, value in recorded.items()
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": looks,
    }
    assert complaints(tmp_path, [test]) == ""


@each("name", [*ALERTS])
def test_an_alert_has_a_severity_a_remedy_and_a_heading_of_the_runbook(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert len(rule["annotations"]["description"]) > 80
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == name.lower()
    assert anchor in anchors_of(ROOT / page)


def test_the_manifest_of_the_operator_is_fresh() -> None:
    assert MANIFEST.read_text() == manifest(), "stale: make config"


def test_only_durations_are_shortened() -> None:
    rules_of_a_minute = {
        rule["alert"]: rule for group in shortened(60)["groups"] for rule in group["rules"] if "alert" in rule
    }
    assert rules_of_a_minute.keys() == ALERTS.keys()
    refused = rules_of_a_minute["McpGatewayTokensRefused"]
    assert "[1440s] offset 10s" in refused["expr"]
    assert ">= 30 / 300" in refused["expr"]
    assert refused["for"] == "5s"
    assert "14 * 86400" in rules_of_a_minute["McpGatewayCertificateEnds"]["expr"]


def test_shortened_rules_are_sound_and_as_many(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(shortened(60)))
    code, said = promtool("check", "rules", str(file))
    assert code == 0, said
    assert f"{len(list(rules()))} rules found" in said


def test_groups_and_records_are_named_alike() -> None:
    assert all(group["name"].startswith("jsonrpc-mcp-gateway.") for group in groups())
    recorded = [rule["record"] for rule in rules() if "record" in rule]
    assert [
        name for name in recorded if not re.fullmatch(r"job_service(_outcome)?:\w+:((rate|p50_|p99_)5m|max)", name)
    ] == []
