"""Bring the metrics of workers to their parent: what changed since the last report, and the sums of all workers.

A report has absolute numbers, so that one more or less does no harm. Counters of a worker that ended stay in the sums:
none goes back. Gauges are merged as their family says.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway import jsonrpc
from gateway.telemetry.cells import REQUEST, Cells, Exemplars, Key
from gateway.telemetry.families import BY_NAME
from gateway.telemetry.metrics import Snapshot

MAX_REPORT: Final = 60 * 1024
"""Bytes of one line of a report."""
_MERGE: Final[dict[str, Callable[[list[float]], float]]] = {"sum": sum, "max": max, "min": min}


class Changes:
    """Find what changed since the last report."""

    def __init__(self) -> None:
        self._last: Snapshot = {}, {}

    def lines(self, found: Snapshot) -> Iterator[list[jsonrpc.Raw]]:
        """Yield the entries of each line: ``[key, cell]``, with null for a gauge that ended, and ``[key, bucket, trace
        id, seconds, time]``."""
        (cells, exemplars), (last_cells, last_exemplars) = found, self._last
        self._last = found
        entries: list[list[Any]] = [[key, cell] for key, cell in cells.items() if last_cells.get(key) != cell]
        entries += [[key, None] for key in last_cells.keys() - cells.keys()]
        changed = (item for item in exemplars.items() if last_exemplars.get(item[0]) != item[1])
        entries += [[key, bucket, *kept] for (key, bucket), kept in changed]
        line: list[jsonrpc.Raw] = []
        size = 0
        for entry in entries:
            raw = jsonrpc.encode(entry)
            if size + len(raw) > MAX_REPORT and line:
                yield line
                line, size = [], 0
            line.append(jsonrpc.Raw(raw))
            size += len(raw) + 1
        if line:
            yield line


class Totals:
    """Hold the sums of all workers, by their numbers. ``services`` are those that workers had last."""

    def __init__(self) -> None:
        self.services: frozenset[str] = frozenset()
        self._running: dict[int, Cells] = {}
        self._ended: Cells = {}
        self._exemplars: Exemplars = {}

    def take(self, worker: int, entries: list[list[Any]]) -> None:
        """Take a line of a worker's report."""
        cells = self._running.setdefault(worker, {})
        for key, *values in entries:
            if len(values) > 1:
                bucket, *kept = values
                self._exemplars[tuple(key), bucket] = tuple(kept)
            elif values[0] is None:
                cells.pop(tuple(key), None)
            else:
                cells[tuple(key)] = values[0]

    def end(self, worker: int) -> None:
        """Keep the counters of a process that ended."""
        for key, cell in self._running.pop(worker, {}).items():
            if _is_counted(key):
                self._ended[key] = _added(self._ended.get(key), cell)

    def snapshot(self, gauges: Iterator[tuple[Key, float]]) -> Snapshot:
        """Return the sums, with the gauges of this process."""
        cells = {key: [*cell] for key, cell in self._ended.items()}
        found: dict[Key, list[float]] = {}
        for worker in self._running.values():
            for key, cell in worker.items():
                if _is_counted(key):
                    cells[key] = _added(cells.get(key), cell)
                elif key[0] in BY_NAME:
                    found.setdefault(key, []).append(cell[0])
        cells |= {key: [_MERGE[BY_NAME[key[0]].merge](values)] for key, values in found.items()}
        return cells | {key: [value] for key, value in gauges}, dict(self._exemplars)


def _is_counted(key: Key) -> bool:
    return key[0] == REQUEST or (key[0] in BY_NAME and BY_NAME[key[0]].kind != "gauge")


def _added(one: list[float] | None, other: list[float]) -> list[float]:
    return [*other] if one is None else [a + b for a, b in zip(one, other, strict=True)]
