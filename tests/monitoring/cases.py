"""Series under which each alert fires, and similar ones under which it does not, which are cases.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from gateway.config.strict_yaml import read_yaml

Series: TypeAlias = dict[str, str]

_JOB: Final = 'namespace="mcp",job="jsonrpc-mcp-gateway"'
_CRM: Final = f'{_JOB},service="crm",instance="10.0.0.7:9090"'
_OTHER: Final = f'{_JOB},service="crm",instance="10.0.0.8:9090"'
_POD: Final = f'{_JOB},instance="10.0.0.7:9090"'
_CALLS: Final = 'surface="mcp",mcp_method_name="tools/call"'
_GATEWAY: Final = {"namespace": "mcp", "job": "jsonrpc-mcp-gateway"}
_OF: Final = {
    "service": ({**_GATEWAY, "service": "crm"}, "jsonrpc-mcp-gateway/crm: "),
    "process": ({**_GATEWAY, "instance": "10.0.0.7:9090"}, "jsonrpc-mcp-gateway 10.0.0.7:9090: "),
}
"""Labels of an alert, and how its summary begins."""
_FILE: Final = Path(__file__).with_name("cases.yaml")


@dataclass(frozen=True)
class Case:
    """What fires after ``at`` minutes, with these labels beside the severity and with this summary, and what does not:
    by the reason."""

    labels: dict[str, str]
    summary: str
    fires: Series
    quiet: dict[str, Series]
    at: int


def _counter(name: str, labels: str, a_minute: float) -> Series:
    return {f"{name}{{{labels}}}": f"0+{a_minute}x30"}


def _requests(**outcomes: float) -> Series:
    """Requests a minute, by outcome; each of two replicas has half of them."""
    found: Series = {}
    for outcome, a_minute in outcomes.items():
        for replica in (_CRM, _OTHER):
            labels = f'{replica},surface="mcp",outcome="{outcome}"'
            found |= _counter("mcp_gateway_requests_total", labels, a_minute / 2)
    return found


def _calls(a_minute: float, slow: float = 0.0) -> Series:
    """Calls a minute, half of them at each of two replicas, and ten times as many listings. Some calls of the first
    replica take between 2 and 5 seconds, and all others up to 10 ms."""
    half = a_minute / 2
    listings = f'{_CRM},surface="mcp",mcp_method_name="tools/list"'
    return (
        _operations(f"{_CRM},{_CALLS}", half, slow)
        | _operations(f"{_OTHER},{_CALLS}", half)
        | _operations(listings, 10 * a_minute)
    )


def _operations(labels: str, a_minute: float, slow: float = 0.0) -> Series:
    name = "mcp_server_operation_duration_seconds"
    counts = {"0.01": a_minute - slow, "2": a_minute - slow, "5": a_minute, "+Inf": a_minute}
    found = _counter(f"{name}_count", labels, a_minute)
    for bound, count in counts.items():
        found |= _counter(f"{name}_bucket", f'{labels},le="{bound}"', count)
    return found


def _refused(values: str) -> Series:
    """Tokens that each of two replicas refused, of a service that is there all the time."""
    there = {f"mcp_gateway_service_available{{{_CRM}}}": "1x1500"}
    return there | {
        f'mcp_gateway_tokens_refused_total{{{replica},reason="expired"}}': values for replica in (_CRM, _OTHER)
    }


_MADE: Final[dict[str, Callable[..., Series]]] = {"calls": _calls, "requests": _requests, "tokens refused": _refused}


def _series(written: Mapping[str, Any]) -> Series:
    """Return what the file says of a case. A value that is no text is of series that are made here."""
    found: Series = {}
    for name, value in written.items():
        found |= _MADE[name](**value) if name in _MADE else {_spelled(name): value}
    return found


def _spelled(series: str) -> str:
    return series.replace("<process>", _POD).replace("<crm>", _CRM).replace("<other>", _OTHER)


def _case(
    of: str,
    summary: str,
    fires: Mapping[str, Any],
    quiet: Mapping[str, Mapping[str, Any]],
    at: int = 25,
    labels: Mapping[str, str] | None = None,
) -> Case:
    """Return the case that an alert of the file has these members of."""
    of_all, begins = _OF[of]
    not_firing = {reason: _series(series) for reason, series in quiet.items()}
    return Case({**of_all, **(labels or {})}, begins + summary, _series(fires), not_firing, at)


CASES: Final[dict[str, Case]] = {
    name: _case(**members) for name, members in read_yaml(_FILE.read_text(encoding="utf-8"), _FILE.name).items()
}
