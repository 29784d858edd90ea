"""Budgets by caller, and who the caller is behind proxies. The clock is the test's own."""

from __future__ import annotations

import time

import pytest

from gateway.errors import RateLimited
from gateway.limits import AddressReader, Budget, network_of


class Clock:
    """Wall-clock seconds that stand still until told otherwise, at the start of a minute."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)  # the library that counts has no other way to be told the time
    return clock


async def spend(budget: Budget, address: str, times: int = 1) -> None:
    for _ in range(times):
        await budget.spend(address)


async def test_a_budget_is_spent_and_the_answer_says_how_long_to_wait(clock: Clock) -> None:
    budget = Budget("discovery", "3/minute")
    clock.now += 18
    await spend(budget, "192.0.2.1", 3)
    with pytest.raises(RateLimited, match=r"discovery.*3 per 1 minute") as caught:
        await budget.spend("192.0.2.1")
    assert caught.value.retry_after == 42


async def test_after_a_while_there_is_budget_again(clock: Clock) -> None:
    budget = Budget("discovery", "3/minute")
    await spend(budget, "192.0.2.1", 3)
    clock.now += 121
    await spend(budget, "192.0.2.1", 3)
    with pytest.raises(RateLimited):
        await budget.spend("192.0.2.1")


async def test_the_wait_is_never_less_than_a_second(clock: Clock) -> None:
    budget = Budget("discovery", "1/minute")
    clock.now += 59.99
    await budget.spend("192.0.2.1")
    with pytest.raises(RateLimited) as caught:
        await budget.spend("192.0.2.1")
    assert caught.value.retry_after == 1


async def test_callers_do_not_spend_each_others_budget(clock: Clock) -> None:
    budget = Budget("discovery", "1/hour")
    await budget.spend("192.0.2.1")
    await budget.spend("192.0.2.2")


async def test_changing_addresses_within_an_ipv6_network_gains_nothing(clock: Clock) -> None:
    budget = Budget("discovery", "1/hour")
    await budget.spend("2001:db8:1:2::1")
    with pytest.raises(RateLimited):
        await budget.spend("2001:db8:1:2:ffff::9")
    await budget.spend("2001:db8:1:3::1")


async def test_a_new_rate_holds_at_once(clock: Clock) -> None:
    budget = Budget("discovery", "1/hour")
    await budget.spend("192.0.2.1")
    budget.set_rate("2/hour")
    await spend(budget, "192.0.2.1", 2)
    with pytest.raises(RateLimited, match="2 per 1 hour"):
        await budget.spend("192.0.2.1")


@pytest.mark.parametrize(
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


PROXIES = ("10.0.0.0/8", "2001:db8:aaaa::/48")
CALLERS = {
    "no proxy, no header": ((), "198.51.100.7", [], "198.51.100.7"),
    "no proxy is trusted, so the header is not": ((), "10.0.0.1", ["203.0.113.9"], "10.0.0.1"),
    "the peer is no proxy, so its header is a lie": (PROXIES, "198.51.100.7", ["203.0.113.9"], "198.51.100.7"),
    "one proxy": (PROXIES, "10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
    "two proxies": (PROXIES, "10.0.0.1", ["203.0.113.9, 10.9.9.9"], "203.0.113.9"),
    "what the caller wrote itself stays left": (
        PROXIES,
        "10.0.0.1",
        ["127.0.0.1, 1.1.1.1, 203.0.113.9"],
        "203.0.113.9",
    ),
    "a caller that claims to be a proxy": (PROXIES, "10.0.0.1", ["10.0.0.2, 203.0.113.9, 10.0.0.3"], "203.0.113.9"),
    "several header lines": (PROXIES, "10.0.0.1", ["1.1.1.1", "203.0.113.9", "10.0.0.9"], "203.0.113.9"),
    "blanks": (PROXIES, "10.0.0.1", ["  203.0.113.9  ,10.0.0.9 "], "203.0.113.9"),
    "only proxies: the first of them": (PROXIES, "10.0.0.1", ["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
    "an empty header": (PROXIES, "10.0.0.1", [""], "10.0.0.1"),
    "no header": (PROXIES, "10.0.0.1", [], "10.0.0.1"),
    "what is no address is not believed": (PROXIES, "10.0.0.1", ["203.0.113.9, unknown"], "10.0.0.1"),
    "nor what stands left of it": (PROXIES, "10.0.0.1", ["203.0.113.9, _hidden, 10.0.0.3"], "10.0.0.3"),
    "an address with a port is none": (PROXIES, "10.0.0.1", ["203.0.113.9:4711"], "10.0.0.1"),
    "IPv6": (PROXIES, "2001:db8:aaaa::1", ["2001:db8:bbbb::2"], "2001:db8:bbbb::2"),
    "the peer has no address": (PROXIES, "", ["203.0.113.9"], ""),
}


@pytest.mark.parametrize(("trusted", "peer", "header", "caller"), CALLERS.values(), ids=CALLERS.keys())
def test_the_caller_is_the_rightmost_address_that_is_no_trusted_proxy(
    trusted: tuple[str, ...], peer: str, header: list[str], caller: str
) -> None:
    assert AddressReader(trusted).caller(peer, header) == caller
