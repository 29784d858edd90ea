"""The metrics of workers become those of their parent: what changed, and the sums."""

from __future__ import annotations

import json
from typing import Any

from gateway import jsonrpc
from gateway.telemetry.cells import REQUEST, Cells
from gateway.telemetry.merging import MAX_REPORT, Changes, Totals

COUNTER = ("mcp_gateway_resends_total", "crm")
GAUGES = ("mcp_gateway_streams_open", "mcp_gateway_event_loop_lag_seconds", "mcp_gateway_store_available")
ASKED = (REQUEST, "crm", "mcp", "tools/call", "ok", "", "2026-07-28", "add")


def reported(changes: Changes, cells: Cells, exemplars: Any = None) -> list[list[Any]]:
    """The entries of all lines, as the parent reads them."""
    lines = [jsonrpc.encode({"metrics": line}) for line in changes.lines((cells, exemplars or {}))]
    assert all(len(line) < 64 * 1024 for line in lines)
    return [entry for line in lines for entry in json.loads(line)["metrics"]]


def sums(totals: Totals) -> Cells:
    return totals.snapshot(iter(()))[0]


def test_a_report_has_what_changed_alone() -> None:
    changes = Changes()
    assert reported(changes, {COUNTER: [1], ASKED: [1.0, 0.5]}) == [[[*COUNTER], [1]], [[*ASKED], [1.0, 0.5]]]
    assert reported(changes, {COUNTER: [1], ASKED: [1.0, 0.5]}) == []
    assert reported(changes, {COUNTER: [2], ASKED: [1.0, 0.5]}) == [[[*COUNTER], [2]]]


def test_a_large_report_has_several_lines() -> None:
    cells: Cells = {(*ASKED[:-1], f"tool{number}"): [float(number)] * 32 for number in range(2400)}
    assert len(list(Changes().lines((cells, {})))) > 2400 * 100 // MAX_REPORT
    assert len(reported(Changes(), cells)) == 2400


def test_counters_of_a_worker_that_ended_stay_and_its_successor_adds_to_them() -> None:
    totals = Totals()
    totals.take(1, [[[*COUNTER], [3]], [[*ASKED], [1.0, 0.5]]])
    totals.take(2, [[[*COUNTER], [4]]])
    assert sums(totals) == {COUNTER: [7], ASKED: [1.0, 0.5]}
    totals.end(1)
    assert sums(totals) == {COUNTER: [7], ASKED: [1.0, 0.5]}
    totals.take(1, [[[*COUNTER], [1]], [[*ASKED], [1.0, 0.25]]])
    assert sums(totals) == {COUNTER: [8], ASKED: [2.0, 0.75]}


def test_gauges_are_merged_as_their_families_say_and_end_with_their_worker() -> None:
    totals = Totals()
    streams, lag, available = ((name,) if number else (name, "crm") for number, name in enumerate(GAUGES))
    totals.take(1, [[[*streams], [3]], [[*lag], [0.5]], [[*available], [1]]])
    totals.take(2, [[[*streams], [4]], [[*lag], [0.1]], [[*available], [0]]])
    assert sums(totals) == {streams: [7], lag: [0.5], available: [0]}
    totals.end(1)
    assert sums(totals) == {streams: [4], lag: [0.1], available: [0]}


def test_a_gauge_that_a_worker_has_no_more_has_no_line() -> None:
    changes, totals = Changes(), Totals()
    gauge = (GAUGES[0], "crm")
    totals.take(1, reported(changes, {gauge: [1]}))
    totals.take(1, reported(changes, {}))
    assert sums(totals) == {}


def test_an_exemplar_reaches_the_parent() -> None:
    totals = Totals()
    kept = ("0af7651916cd43dd8448eb211c80319c", 0.25, 1.5e9)
    totals.take(1, reported(Changes(), {ASKED: [1.0]}, {(ASKED, 3): kept}))
    assert totals.snapshot(iter(()))[1] == {(ASKED, 3): kept}


def test_what_a_worker_of_another_version_reports_does_no_harm() -> None:
    totals = Totals()
    totals.take(1, [[["mcp_gateway_of_tomorrow_total"], [1]]])
    totals.end(1)
    assert sums(totals) == {}
