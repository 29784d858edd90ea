"""Budgets by caller, and who the caller is behind proxies. The clock is the test's own."""

from __future__ import annotations

from contextlib import suppress

import pytest
import structlog

from gateway.errors import RateLimited
from gateway.limits import MAX_HANDLES, Budget
from gateway.model import AccessToken, Caller, Principal
from gateway.networks import AddressReader, network_of
from gateway.store.memory import MemoryStore
from tests.each import each
from tests.manual_clock import ManualClock
from tests.tables import each_row


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_234.5)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


async def spend(budget: Budget, address: str = "192.0.2.1", times: int = 1) -> None:
    for _ in range(times):
        await budget.spend(Caller(address))


async def wait_of(budget: Budget, address: str = "192.0.2.1") -> int:
    """What a refused request is told."""
    with pytest.raises(RateLimited) as caught:
        await budget.spend(Caller(address))
    assert caught.value.retry_after is not None
    return caught.value.retry_after


async def test_the_whole_count_may_come_at_once_and_then_one_at_a_time(store: MemoryStore, clock: ManualClock) -> None:
    budget = Budget(store, "discovery", "60/minute")
    await spend(budget, times=60)
    for _ in range(3):
        assert await wait_of(budget) == 1
        clock.now += 1
        await spend(budget)
    clock.now += 30
    await spend(budget, times=30)
    assert await wait_of(budget) == 1


async def test_a_refusal_says_what_is_allowed(store: MemoryStore) -> None:
    budget = Budget(store, "next page", "3/minute", multiplier=10)
    await spend(budget, times=30)
    with pytest.raises(RateLimited, match=r"^Too many next page requests, at most 30 per minute$"):
        await budget.spend(Caller("192.0.2.1"))


@pytest.mark.parametrize("rate", ["1/second", "7/second", "3/minute", "7/minute", "1000/minute", "7/hour", "1/day"])
@pytest.mark.parametrize("since", [0.0, 0.01, 1 / 30])
async def test_a_request_after_the_seconds_that_a_refusal_says_is_served_and_none_before(
    store: MemoryStore, clock: ManualClock, rate: str, since: float
) -> None:
    budget = Budget(store, "discovery", rate)
    for _ in range(20):
        clock.now += since
        with suppress(RateLimited):
            await spend(budget, times=1001)
        wait = await wait_of(budget)
        assert wait >= 1
        clock.now += wait - 1
        assert await wait_of(budget) == 1
        clock.now += 1
        await spend(budget)


async def test_refused_requests_cost_nothing(store: MemoryStore, clock: ManualClock) -> None:
    budget = Budget(store, "discovery", "1/minute")
    await spend(budget)
    for _ in range(59):
        clock.now += 1
        await wait_of(budget)
    clock.now += 1
    await spend(budget)


async def test_callers_and_budgets_do_not_spend_from_each_other(store: MemoryStore) -> None:
    one, other = Budget(store, "discovery", "1/hour"), Budget(store, "next page", "1/hour")
    for budget in (one, other):
        await spend(budget, "192.0.2.1")
        await spend(budget, "192.0.2.2")
        await wait_of(budget)


async def test_what_was_spent_stays_spent_however_many_callers_came_since(store: MemoryStore) -> None:
    budget = Budget(store, "discovery", "1/hour")
    await spend(budget)
    for number in range(MAX_HANDLES + 1):
        await spend(budget, f"198.18.{number // 256}.{number % 256}")
    await wait_of(budget)


async def test_changing_addresses_within_an_ipv6_network_gains_nothing(store: MemoryStore) -> None:
    budget = Budget(store, "discovery", "1/hour")
    await spend(budget, "2001:db8:1:2::1")
    await wait_of(budget, "2001:db8:1:2:ffff::9")
    await spend(budget, "2001:db8:1:3::1")


async def test_a_higher_rate_holds_at_once(store: MemoryStore, clock: ManualClock) -> None:
    budget = Budget(store, "discovery", "1/day")
    await spend(budget)
    budget = Budget(store, "discovery", "60/minute")
    assert await wait_of(budget) == 1
    clock.now += 1
    await spend(budget)
    await spend(budget, "192.0.2.2", 60)
    with pytest.raises(RateLimited, match="60 per minute"):
        await budget.spend(Caller("192.0.2.2"))


async def test_a_lower_rate_holds_at_once(store: MemoryStore, clock: ManualClock) -> None:
    budget = Budget(store, "discovery", "1000/minute")
    await spend(budget, times=500)
    budget = Budget(store, "discovery", "4/minute")
    await spend(budget, times=2)
    assert await wait_of(budget) == 15
    clock.now += 15
    await spend(budget)
    await wait_of(budget)


@each(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0:1::5", "2001:db8:0:1::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_what_a_caller_can_speak_from_counts_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


@each_row
def test_the_caller_is_the_rightmost_address_that_is_no_trusted_proxy(
    trusted: tuple[str, ...], peer: str, header: list[str], caller: str
) -> None:
    assert AddressReader(trusted).caller_address(peer, header) == caller


def test_what_is_no_address_is_told_once() -> None:
    reader = AddressReader(["10.0.0.0/8"])
    with structlog.testing.capture_logs() as logs:
        for hop in ("unknown", "\x1b[2Jlocalhost:80", ""):
            reader.caller_address("10.0.0.1", [hop])
    assert [(line["event"], line["proxy"], line["value"]) for line in logs] == [
        ("X-Forwarded-For has no address", "10.0.0.1", "unknown")
    ]


async def test_addresses_without_number_keep_no_caller_with_a_token_waiting(clock: ManualClock) -> None:
    budget = Budget(MemoryStore(clock, most=10), "discovery", "1/hour")
    for number in range(1000):
        with suppress(RateLimited):
            await budget.spend(Caller(f"2001:db8:{number:x}::1"))
    assert await wait_of(budget, "192.0.2.1") == 3600
    ann = Principal("https://login.example.com", "ann", "app", frozenset(), 1e10, AccessToken("t"))
    await budget.spend(Caller("192.0.2.1", principal=ann))
