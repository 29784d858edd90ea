"""What stands in deploy/monitoring: rules for Prometheus, a dashboard, and the kustomize component of both.

``python -m tests.monitoring`` writes prometheusrule.yaml from rules.yaml, and dashboard.json; ``make config`` runs it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.services.process import require_program
from tests.waiting import PATIENCE

FOLDER: Final = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES: Final = FOLDER / "rules.yaml"
MANIFEST: Final = FOLDER / "prometheusrule.yaml"
DASHBOARD: Final = FOLDER / "dashboard.json"
CASES: Final = Path(__file__).with_name("cases.yaml")

_HEAD: Final = """# Made of rules.yaml by `make config`; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: jsonrpc-mcp-gateway
  labels:
    app.kubernetes.io/name: jsonrpc-mcp-gateway
    app.kubernetes.io/instance: jsonrpc-mcp-gateway
spec:
"""
# Durations as PromQL has them: of a range, of an offset. Numbers without a unit are no durations.
_DURATION: Final = re.compile(r"(?<=\[)\d+[smhd](?=\])|(?<=offset )\d+[smhd]\b")
_LABELS: Final = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)")
_NAME: Final = re.compile(r"\b(?:mcp|rpc|process|python|job_service|job_service_outcome)[_:][\w:]*\b(?!\s*\()")
_LEAST: Final = {"McpGatewayLoopLag": "20s"}
"""What shortened rules wait for where a metric has a memory of its own: this one is the longest lag of 15 s."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def manifest() -> str:
    """Return the PrometheusRule for the operator: the groups of rules.yaml, as its spec."""
    lines = [line for line in RULES.read_text().splitlines() if not line.startswith("#")]
    return _HEAD + "".join(f"  {line}".rstrip() + "\n" for line in lines)


def groups() -> list[dict[str, Any]]:
    """Return the groups of rules.yaml."""
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return found


def rules() -> Iterator[dict[str, Any]]:
    """Yield every rule, recording rules first."""
    for group in groups():
        yield from group["rules"]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def metrics_in(expression: str) -> set[str]:
    """Return the names of the metrics, and of the recorded ones, in a PromQL expression."""
    bare = _LABELS.sub("", re.sub(r"\{[^}]*\}", "", re.sub(r'"[^"]*"', "", expression)))
    return set(_NAME.findall(bare))


def shortened(factor: int) -> dict[str, Any]:
    """Return the rules with every duration (`for`, ranges, offsets) divided, and evaluated each second. What is not
    divided is in :data:`_LEAST`."""

    def shorter(duration: str) -> str:
        return f"{max(1, int(duration[:-1]) * _SECONDS[duration[-1]] // factor)}s"

    def of(rule: dict[str, Any]) -> dict[str, Any]:
        expression = _DURATION.sub(lambda found: shorter(found[0]), rule["expr"])
        waits = _LEAST.get(rule.get("alert", "")) or (shorter(rule["for"]) if "for" in rule else None)
        return {**rule, "expr": expression} | ({"for": waits} if waits and factor > 1 else {})

    return {
        "groups": [{**group, "interval": "1s", "rules": [of(rule) for rule in group["rules"]]} for group in groups()]
    }


def promtool(*arguments: str, text: str | None = None) -> tuple[int, str]:
    """Run Debian's promtool. Return its exit code and what it printed, both streams."""
    command = [require_program("promtool", "prometheus"), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr
