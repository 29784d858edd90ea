"""Render the metrics for ``/metrics``: the cells of this process or the sums of its workers, and gauges."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import add
from typing import Any, Final, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

from gateway.telemetry import cells
from gateway.telemetry.cells import BUCKETS, Cells, Exemplars, Key
from gateway.telemetry.families import BY_NAME, FAMILIES, Family

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = openmetrics.CONTENT_TYPE_LATEST
_BOUNDS: Final = (*map(floatToGoString, BUCKETS), "+Inf")
_REQUESTS: Final = "mcp_gateway_requests_total"
_SECONDS: Final = "mcp_gateway_tool_call_seconds_total"

_SLICE: Final = 100

_Item = TypeVar("_Item")
Snapshot: TypeAlias = tuple[Cells, Exemplars]


def snapshot(gauges: Iterable[tuple[Key, float]] = ()) -> Snapshot:
    """Return a copy of this process's cells with the gauges and counters that are read now."""
    copied: Cells = {key: [*cell] for key, cell in cells.CELLS.items()}
    return copied | {key: [value] for key, value in gauges}, dict(cells.EXEMPLARS)


async def render(found: Snapshot, services: Iterable[str], accept: str) -> tuple[bytes, str]:
    """Return the metrics of these services and of the process, and their content type: OpenMetrics if ``accept`` names
    it. A thread renders them, so that the event loop goes on."""
    is_open = "application/openmetrics-text" in accept
    return await asyncio.to_thread(_rendered, found, frozenset(("", *services)), is_open)


def _rendered(found: Snapshot, services: frozenset[str], is_open: bool) -> tuple[bytes, str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(*found, services))
    ProcessCollector(registry=registry)
    if is_open:
        return openmetrics.generate_latest(registry), OPENMETRICS  # type: ignore[no-untyped-call]
    return generate_latest(registry), TEXT


def _yielding(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield each item, and let the event loop have the interpreter in between: else it waits 5 ms for each turn."""
    for number, item in enumerate(items):
        if not number % _SLICE:
            time.sleep(0)
        yield item


class _Samples(list[Sample]):
    """The lines of a metric, which are rendered in slices."""

    def __iter__(self) -> Iterator[Sample]:
        return _yielding(super().__iter__())


class _Collector:
    """Make families of cells. Those of a service that is not one of ``services`` end: a reload removed it."""

    def __init__(self, found: Cells, exemplars: Exemplars, services: frozenset[str]) -> None:
        self._lines: dict[str, dict[tuple[str, ...], list[float]]] = {family.name: {} for family in FAMILIES}
        self._exemplars: dict[tuple[str, ...], dict[int, Exemplar]] = {}
        for key, cell in _yielding(found.items()):
            name, *labels = key
            if name == cells.REQUEST:
                if labels[0] in services:
                    self._add_request(key, cell, exemplars)
                continue
            family = BY_NAME.get(name)  # a worker may be of another version during an upgrade
            if family is None or (family.labels[:1] == ("service",) and labels[0] not in services):
                continue
            if name == cells.EXCHANGE:
                self._add(name, (labels[0], "jsonrpc", *labels[1:]), cell)
            else:
                self._lines[name][tuple(labels)] = cell

    def _add(self, name: str, labels: tuple[str, ...], cell: list[float]) -> None:
        """Add a cell to a line, which several cells may have."""
        line = self._lines[name].get(labels)
        self._lines[name][labels] = cell if line is None else [*map(add, line, cell)]

    def _add_request(self, key: Key, cell: list[float], exemplars: Exemplars) -> None:
        _, service, surface, method, outcome, code, revision, tool = key
        whole, sent = cell[: cells.SENT], cell[cells.SENT :]
        count = sum(whole[:-1])
        self._add(_REQUESTS, (service, surface, outcome), [count])
        if any(sent):
            self._add(cells.EXCHANGE, (service, "jsonrpc", "", ""), sent)
        status = "" if surface == cells.REST else code
        error = cells.error_type(surface, outcome, status)
        if tool and outcome not in cells.CANCELLING:
            self._add(cells.TOOL, (service, tool, "ok"), [0 if error else count])
            self._add(cells.TOOL, (service, tool, "failed"), [count if error else 0])
            self._add(_SECONDS, (service, tool), whole[-1:])
        if not method:
            return
        network = ("pipe", "") if surface == "stdio" else ("tcp", "http")
        operation = "execute_tool" if method == "tools/call" else ""
        labels = (service, surface, method, operation, error, status, revision, *network)
        self._add(cells.OPERATION, labels, whole)
        for bucket in range(len(_BOUNDS)):
            if (kept := exemplars.get((key, bucket))) is not None:
                trace_id, seconds, at = kept
                line = self._exemplars.setdefault(labels, {})
                if bucket not in line or float(line[bucket].timestamp or 0) < at:  # the latest of all tools
                    line[bucket] = Exemplar({"trace_id": trace_id}, seconds, at)

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            metric = self._histogram(family) if family.kind == "histogram" else self._single(family)
            metric.samples = _Samples(metric.samples)
            yield metric

    def _single(self, family: Family) -> Metric:
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = kind(family.name, family.help, labels=family.labels)
        # add_metric() takes twice as long, and there may be thousands of tools.
        metric.samples = [Sample(family.name, dict(zip(family.labels, labels, strict=True)), cell[0])
                          for labels, cell in self._lines[family.name].items()]  # fmt: skip
        return metric

    def _histogram(self, family: Family) -> Metric:
        metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, cell in self._lines[family.name].items():
            kept = self._exemplars.get(labels, {}) if family.name == cells.OPERATION else {}
            sums = enumerate(zip(_BOUNDS, accumulate(cell[:-1]), strict=True))
            buckets: Any = [(bound, float(count), kept.get(number)) for number, (bound, count) in sums]
            metric.add_metric(labels, buckets, cell[-1])
        return metric
