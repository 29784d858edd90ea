"""Read the text of ``/metrics`` again, for who looks at one gateway: rates, quantiles and states of each service."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry import cells

Samples: TypeAlias = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by name and labels, of one reading."""
_CALL: Final = "tools/call"


@dataclass
class ServiceFigures:
    """Hold what happened at one service. ``failed`` are calls whose result is an error, ``refused`` requests that a
    limit refused. ``p50`` and ``p99`` are in seconds, None without calls; infinite beyond the last bucket."""

    calls: float = 0.0
    failed: float = 0.0
    refused: float = 0.0
    queue: float = 0.0
    breaker_open: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict, repr=False)

    @property
    def p50(self) -> float | None:
        return self._quantile(0.5)

    @property
    def p99(self) -> float | None:
        return self._quantile(0.99)

    def _quantile(self, share: float) -> float | None:
        """Return the value below which this share of the calls is: linear within a bucket, as Prometheus has it."""
        bounds = [(0.0, 0.0), *sorted(self.buckets.items())]
        wanted = share * bounds[-1][1]
        if not wanted:
            return None
        for (low, before), (high, count) in pairwise(bounds):
            if count >= wanted:
                return high if high == inf else low + (high - low) * (wanted - before) / (count - before)
        return inf


def read_samples(text: str) -> Samples:
    """Return the values of a text that ``/metrics`` sent. Raises :class:`ValueError` for another text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def service_figures(now: Samples, before: Samples, services: Iterable[str]) -> dict[str, ServiceFigures]:
    """Return the figures by service: counters from ``before`` to ``now``, gauges as they are now. A counter that went
    back belongs to another process: it counts from 0."""
    figures = {name: ServiceFigures() for name in services}
    for (name, pairs), value in now.items():
        labels = dict(pairs)
        found = figures.get(labels.get("service", ""))
        if found is None:
            continue
        was = before.get((name, pairs), 0.0)
        _add(found, name, labels, value, value - was if value >= was else value)
    return figures


def _add(found: ServiceFigures, name: str, labels: Mapping[str, str], value: float, added: float) -> None:
    if name.startswith(cells.OPERATION) and labels.get("mcp_method_name") == _CALL:
        if name.endswith("_bucket"):
            bound = float(labels["le"])
            found.buckets[bound] = found.buckets.get(bound, 0.0) + added
        elif name.endswith("_count"):
            found.calls += added
            found.failed += added if labels.get("error_type") else 0.0
    elif name == cells.LIMIT:
        found.refused += added
    elif name == "mcp_gateway_queue_length":
        found.queue = value
    elif name == "mcp_gateway_breaker_open":
        found.breaker_open = value
