"""A panel of the dashboard, and its kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

ALL: Final = 'job=~"$job"'
OF: Final = 'job=~"$job",service=~"$service"'


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


_STAT: Final = {
    "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "textMode": "value_and_name"}
}


def _from_one(color: str, below: str) -> dict[str, Any]:
    steps = [{"color": below, "value": None}, {"color": color, "value": 1}]
    return {"thresholds": {"mode": "absolute", "steps": steps}}


LIGHTS: Final = {"green from one": _from_one("green", "red"), "red from one": _from_one("red", "green")}


def stat(title: str, shows: Mapping[str, str], says: str, colors: Mapping[str, Any], unit: str = "short") -> Panel:
    return Panel(title, shows, says, unit, "stat", 4, {"stat": _STAT, "defaults": colors})


def table(title: str, shows: Mapping[str, str], says: str, hidden: Sequence[str]) -> Panel:
    organize = {"id": "organize", "options": {"excludeByName": dict.fromkeys(("Time", "__name__", *hidden), True)}}
    return Panel(title, shows, says, kind="table", more={"transformations": [organize]})
