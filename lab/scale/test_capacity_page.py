"""The model of `make scale` against what is known of queues, and the form of docs/capacity.md. `make scale` judges the
figures."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lab.scale.__main__ import results
from lab.scale.failover import FailedOver
from lab.scale.model import (
    BUSY,
    CONNECTIONS,
    Costs,
    Habit,
    Left,
    Parts,
    Station,
    breaking_points,
    calls_per_second,
    needs,
)
from lab.scale.page import CALLERS, PAGE, TEXT, page
from lab.scale.runs import CHECKS, Check, Checked

COSTS = Costs(
    parts=(Parts(1, 200, 20, 50), Parts(32, 100, 20, 20), Parts(512, 180, 20, 20)), shared=120, commands=1, command=10,
    sharing=0, leased=0, listed=80, newcomer=600, idle=80e6, caller=1500, stream=12_000, redis_caller=300,
)  # fmt: skip
QUIET = Left()
ONE_STREAM = Habit()
HOLDS_NOTHING = Habit(streams=0)


def failover(**changed: Any) -> FailedOver:
    found = {"calls": 3000, "right": 3000, "wrong": 0, "twice": 0, "lost": 0, "refused": 0, "promoted": 1, "away": 2}
    return FailedOver(**(found | changed), complaints=())


def test_one_client_is_answered_after_all_stations_and_the_delay() -> None:
    assert calls_per_second([Station(0.001), Station(0.002)], 0.007, 1) == pytest.approx(100)


def test_many_clients_keep_the_busiest_station_busy_and_no_more() -> None:
    for clients in (100, 1000):
        assert calls_per_second([Station(0.001), Station(0.002)], 0.007, clients) == pytest.approx(500, rel=0.01)
    assert calls_per_second([Station(0.002, cores=2)], 0, 1000) == pytest.approx(1000, rel=0.01)


def test_two_equal_stations_are_as_busy_as_mean_value_analysis_says() -> None:
    """With n clients and two equal stations of one second each, it is n / (n + 1)."""
    for clients in (1, 2, 5, 50):
        assert calls_per_second([Station(1), Station(1)], 0, clients) == pytest.approx(clients / (clients + 1))


def test_more_clients_never_make_fewer_calls() -> None:
    rates = [calls_per_second([Station(0.001), Station(0.0005, cores=2)], 0.02, clients) for clients in range(1, 200)]
    assert all(more >= fewer * (1 - 1e-9) for fewer, more in pairwise(rates))


def test_what_other_programs_leave_of_a_core_makes_each_call_longer() -> None:
    one, two = Check("any", 1, 128), Check("any", 2, 128)
    assert one.foretold(COSTS, Left(core=0.5)) == pytest.approx(one.foretold(COSTS, QUIET) / 2, rel=0.01)
    assert two.foretold(COSTS, Left(0.4, 0.6)) == pytest.approx(two.foretold(COSTS, QUIET) / 2, rel=0.01)


def test_between_the_measured_numbers_of_calls_a_cost_goes_by_the_logarithm() -> None:
    assert [round(COSTS.at(calls).gateway) for calls in (0.5, 1, 2, 16, 32, 128, 512, 9999)] == [
        200, 200, 180, 120, 100, 140, 180, 180,
    ]  # fmt: skip


def test_calls_that_wait_for_the_service_are_not_under_way_in_the_gateway() -> None:
    few, many = Check("any", 1, 50, 0.02), Check("any", 1, 50)
    assert few.foretold(COSTS, QUIET) == pytest.approx(50 / 0.0203, rel=0.02)
    assert many.foretold(COSTS, QUIET) == pytest.approx(1e6 / COSTS.at(50).gateway, rel=0.03)


def test_two_workers_share_both_cores_with_load_and_service_and_have_half_of_the_calls_each() -> None:
    check = Check("any", 2, 64)
    assert check.foretold(COSTS, QUIET) == pytest.approx(2e6 / (100 + 20 + 20), rel=0.02)


def test_what_is_planned_with_is_a_call_among_few() -> None:
    assert COSTS.planned() == pytest.approx(120 * COSTS.at(1.5).gateway / 100)


def test_so_many_replicas_that_each_limit_is_kept() -> None:
    for callers in CALLERS:
        need = needs(COSTS, ONE_STREAM, callers)
        assert all(share <= 1 for name, share in need.busy.items() if name != "Redis")
        assert need.replicas >= 1
        assert need.cores / need.replicas <= BUSY
        assert need.calls == pytest.approx(callers / 10)
        assert need.redis_commands == pytest.approx(need.calls)
        assert need.memory <= 512 * 1024**2


def test_connections_break_first_with_a_stream_for_each_and_a_core_or_a_view_without() -> None:
    assert needs(COSTS, ONE_STREAM, 100_000).first == "connections"
    assert needs(COSTS, ONE_STREAM, 100_000).replicas == 2 * 100_000 / CONNECTIONS
    points = breaking_points(COSTS, HOLDS_NOTHING)
    assert points["connections"] == points["views that are kept"] == CONNECTIONS


def test_one_redis_is_too_small_for_a_million_callers_whatever_the_replicas() -> None:
    need = needs(COSTS, ONE_STREAM, 1_000_000)
    assert need.first == "Redis"
    assert need.busy["Redis"] == pytest.approx(100_000 * 10 / 1e6 / BUSY)
    assert breaking_points(COSTS, ONE_STREAM)["Redis"] == pytest.approx(600_000)


def test_a_check_holds_where_the_median_of_five_is_near_enough() -> None:
    one, two = Check("any", 1, 32), Check("any", 2, 32)
    ones = [1.0] * 5
    assert Checked(one, [1.0, 1.14, 1.14, 1.3, 9.0], ones, ones).holds
    assert not Checked(one, [1.0, 1.2, 1.2, 1.2, 1.0], ones, ones).holds
    assert Checked(two, [1.0, 1.2, 1.2, 1.2, 1.0], ones, ones).holds
    assert not Checked(two, [0.7] * 5, ones, ones).holds
    assert {check.within for check in CHECKS} == {0.15, 0.25}


@pytest.mark.parametrize("fault", ["wrong", "twice", "lost"])
def test_one_call_that_went_wrong_in_a_failover_is_too_many(fault: str) -> None:
    assert failover().holds
    assert not failover(**{fault: 1}).holds
    assert not failover(calls=2999).holds


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ .*$", text, re.MULTILINE)


def test_the_page_has_the_sections_of_its_text_each_run_and_each_number_of_callers() -> None:
    made = PAGE.read_text()
    assert headings(made) == headings(TEXT.read_text())
    assert "{{" not in made
    cells = set(re.findall(r"^\| (.*?) \|", made, re.MULTILINE))
    assert {check.what for check in CHECKS} | {f"{callers:,}" for callers in CALLERS} <= cells


def test_the_text_of_the_page_has_a_place_for_each_figure() -> None:
    checks = [Checked(check, [110.0] * 5, [100.0] * 5, [1.0] * 5) for check in CHECKS]
    made = page(results(COSTS, checks, failover()), TEXT.read_text())
    assert "| one process, 8 connections | 110 | 100 | +10% | ±15% | ok |" in made
    assert "| 1,000,000 | 100,000 | 23.03 | 200 |" in made
    assert "| Redis | 600,000 | all replicas together |" in made
    assert "not quiet" not in made
    busy = [replace(one, left=[0.5] * 5) for one in checks]
    assert "not quiet" in page(results(COSTS, busy, failover()), TEXT.read_text())
