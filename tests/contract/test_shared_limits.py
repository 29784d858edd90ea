"""Limits of two replicas with one store of each kind: of callers, clients, tools and listings."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.limits import Budget, CallBudget
from gateway.store import Store
from tests.manual_clock import ManualClock
from tests.unit.test_call_limits import ADDRESS, TOOL, user

LIMITED = replace(TOOL, limit="60/minute")


@pytest.mark.parametrize("load", [0.5, 0.95])
async def test_calls_within_all_limits_are_served_by_both_at_one_moment(
    store: Store, other: Store, clock: ManualClock, load: float
) -> None:
    """Five calls of one caller to one tool each time: half the burst of the tool's limit."""
    budgets = [CallBudget(one, "600/minute") for one in (store, other)]
    for _ in range(20):
        quotas = await asyncio.gather(*(budgets[call % 2].spend(user("ada"), LIMITED) for call in range(5)))
        assert [quota.wait for quota in quotas] == [0] * 5
        clock.now += 5 / load


async def test_no_reply_says_that_more_is_left_than_both_can_give(store: Store, other: Store) -> None:
    budgets = [CallBudget(one, "600/minute") for one in (store, other)]
    left = 60
    for call in range(70):
        quota = await budgets[call % 2].spend(ADDRESS, TOOL)
        left -= not quota.wait
        # What the other one took since this one asked last is not known here: a lease of a tenth.
        assert 0 <= quota.left <= left + 6
    assert left == 0


@pytest.mark.parametrize("rate", ["10/minute", "60/minute"])
async def test_listings_within_the_limit_are_served_by_both_at_one_moment(
    store: Store, other: Store, clock: ManualClock, rate: str
) -> None:
    count = int(rate.partition("/")[0])
    budgets = [Budget(one, "listing", rate) for one in (store, other)]
    for _ in range(20):
        await asyncio.gather(*(budgets[call % 2].spend(ADDRESS) for call in range(count // 2)))
        clock.now += 30 / 0.95
