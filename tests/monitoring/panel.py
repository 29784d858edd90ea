"""A panel of the dashboard, and how its expressions are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ALL: Final = 'job=~"$job"'
OF: Final = 'job=~"$job",service=~"$service"'
CALLS: Final = f'{OF},mcp_method_name="tools/call"'


@dataclass(frozen=True)
class Panel:
    """One panel. ``shows`` are expressions by legend, ``says`` is what to conclude; ``kind`` is Grafana's name of the
    visualization, and ``more`` what belongs to that."""

    title: str
    shows: Mapping[str, str]
    says: str
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    more: Mapping[str, Any] = field(default_factory=dict)


def rate(metric: str, by: str, labels: str = OF) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def quantile(part: float, histogram: str, labels: str = OF, by: str = "service") -> str:
    return f"histogram_quantile({part}, {rate(f'{histogram}_bucket', f'{by}, le', labels)})"


_STAT: Final = {
    "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "textMode": "value_and_name"}
}
GREEN_FROM_ONE: Final = {
    "thresholds": {"mode": "absolute", "steps": [{"color": "red", "value": None}, {"color": "green", "value": 1}]}
}
RED_FROM_ONE: Final = {
    "thresholds": {"mode": "absolute", "steps": [{"color": "green", "value": None}, {"color": "red", "value": 1}]}
}


def stat(title: str, shows: Mapping[str, str], says: str, colors: Mapping[str, Any], unit: str = "short") -> Panel:
    return Panel(title, shows, says, unit, "stat", 4, {"stat": _STAT, "defaults": colors})


def table(title: str, expression: str, says: str, hidden: tuple[str, ...]) -> Panel:
    organize = {"id": "organize", "options": {"excludeByName": dict.fromkeys(("Time", "__name__", *hidden), True)}}
    return Panel(title, {"": expression}, says, kind="table", more={"transformations": [organize]})
