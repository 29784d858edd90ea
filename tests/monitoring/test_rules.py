"""The rules fire when they should and not otherwise, as promtool evaluates them, and each alert has its remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.monitoring import MANIFEST, RULES, alerts, groups, manifest, promtool, rules, shortened
from tests.monitoring.cases import CASES, Case, Series
from tests.unit.test_documents import anchors_of

ROOT = RULES.parents[2]


def evaluated(name: str, series: Series, minute: int, expected: list[dict[str, Any]]) -> dict[str, Any]:
    """One test for promtool: what this alert is, that long after the series begin."""
    return {
        "name": f"{name} {minute}m",
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}],
    }


def complaints(folder: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool has to complain about."""
    file = folder / "tests.json"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    code, said = promtool("test", "rules", str(file))
    return "" if code == 0 else said


def minutes(duration: str) -> int:
    assert duration.endswith("m")
    return int(duration[:-1])


def fired(name: str, case: Case) -> dict[str, Any]:
    rule = alerts()[name]
    annotations = {**rule["annotations"], "summary": case.summary}
    return {"exp_labels": {**case.labels, **rule["labels"]}, "exp_annotations": annotations}


def test_the_rules_are_sound() -> None:
    code, said = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert code == 0, said


def test_every_alert_has_its_cases() -> None:
    assert list(CASES) == [*dict.fromkeys(CASES)]
    assert CASES.keys() == alerts().keys()
    assert [name for name, case in CASES.items() if not case.quiet] == []


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_once_and_says_what_it_is_about(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert complaints(tmp_path, [evaluated(name, case.fires, case.at, [fired(name, case)])]) == ""


@pytest.mark.parametrize("name", CASES)
def test_an_alert_does_not_fire_without_its_cause(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    looks = [evaluated(name, series, case.at, []) for series in case.quiet.values()]
    assert complaints(tmp_path, looks) == ""


@pytest.mark.parametrize("name", [name for name, rule in alerts().items() if minutes(rule.get("for", "0m")) > 1])
def test_an_alert_waits_before_it_wakes_anybody(name: str, tmp_path: Path) -> None:
    """Where the cause is there from the first sample on. The keys' case is that of all others."""
    early = minutes(alerts()[name]["for"]) - 1
    assert complaints(tmp_path, [evaluated(name, CASES[name].fires, early, [])]) == ""


def test_no_gateway_at_all_is_an_alert_too(tmp_path: Path) -> None:
    name = "McpGatewayNotScraped"
    rule = alerts()[name]
    annotations = {**rule["annotations"], "summary": "jsonrpc-mcp-gateway: no metrics for 5 minutes"}
    expected = {"exp_labels": rule["labels"], "exp_annotations": annotations}
    assert complaints(tmp_path, [evaluated(name, {'up{job="node"}': "1x30"}, 25, [expected])]) == ""


def test_keys_that_were_never_fetched_are_an_alert_too(tmp_path: Path) -> None:
    name = "McpGatewayIssuerKeysOld"
    rule, case = alerts()[name], CASES[name]
    summary = case.summary.replace("are 1h 55m 0s old", "were never fetched")
    expected = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {**rule["annotations"], "summary": summary},
    }
    series = {one: values for one, values in case.fires.items() if "max_age" in one}
    assert complaints(tmp_path, [evaluated(name, series, 4, []), evaluated(name, series, 6, [expected])]) == ""


def test_a_gateway_with_one_service_has_no_name_for_it(tmp_path: Path) -> None:
    name = "McpGatewayBreakerOpen"
    rule = alerts()[name]
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


@pytest.mark.parametrize("name", alerts())
def test_an_alert_has_a_severity_a_remedy_and_a_heading_of_the_runbook(name: str) -> None:
    rule = alerts()[name]
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
    assert rules_of_a_minute.keys() == alerts().keys()
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
