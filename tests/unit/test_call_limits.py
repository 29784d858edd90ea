"""How many calls a caller may make, and what one is told that makes too many. The clock is the test's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import CallLimited
from gateway.limits import CallBudget, ConcurrencyLimit
from gateway.model import AccessToken, Binding, Caller, Principal, Structure, Tool
from gateway.store.memory import MemoryStore
from tests.manual_clock import ManualClock

ADDRESS = Caller("192.0.2.1")
TOOL = Tool("echo", "echo", "", {}, Binding("echo", Structure.BY_NAME))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


def user(name: str, client: str = "app") -> Caller:
    return Caller(
        "192.0.2.1", principal=Principal("https://i.example", name, client, frozenset(), 0.0, AccessToken("t"))
    )


async def made(budget: CallBudget, caller: Caller = ADDRESS, tool: Tool = TOOL, most: int = 2000) -> int:
    """How many calls can be made one after the other."""
    for count in range(most):
        if (await budget.spend(caller, tool)).wait:
            return count
    return most


@pytest.mark.parametrize(
    ("rate", "burst"), [("600/minute", 60), ("100/minute", 10), ("30/minute", 10), ("2/hour", 10), ("9999/day", 999)]
)
async def test_a_tenth_of_the_rate_may_come_at_once_and_at_least_ten(store: MemoryStore, rate: str, burst: int) -> None:
    assert await made(CallBudget(store, rate)) == burst


async def test_calls_come_back_at_the_rate(store: MemoryStore, clock: ManualClock) -> None:
    budget = CallBudget(store, "600/minute")
    await made(budget)
    clock.now += 1
    assert await made(budget) == 10


async def test_the_fields_say_the_rate_what_is_left_and_when_all_is_back(store: MemoryStore) -> None:
    budget = CallBudget(store, "600/minute")
    for _ in range(47):
        await budget.spend(ADDRESS, TOOL)
    quota = await budget.spend(ADDRESS, TOOL)
    assert quota.headers == {"RateLimit-Policy": '"call";q=600;w=60', "RateLimit": '"call";r=12;t=5'}
    assert quota.wait == 0


async def test_a_refusal_says_how_long_to_wait_and_that_nothing_was_called(store: MemoryStore) -> None:
    budget = CallBudget(store, "6/minute")
    await made(budget)
    quota = await budget.spend(ADDRESS, TOOL)
    assert quota.headers == {
        "RateLimit-Policy": '"call";q=6;w=60',
        "RateLimit": '"call";r=0;t=100',
        "Retry-After": "10",
    }
    fault = quota.fault
    assert isinstance(fault, CallLimited)
    assert fault.message == (
        "Too many calls: at most 6 per minute. This call was not made. "
        "Wait 10 s, then call again; the arguments may stay as they are"
    )
    assert (fault.status, fault.retry_after, fault.refuses) == (429, 10, False)


async def test_one_caller_spends_nothing_of_anothers(store: MemoryStore) -> None:
    budget = CallBudget(store, "10/minute")
    for caller in (ADDRESS, Caller("192.0.2.2"), user("ann"), user("bob")):
        assert await made(budget, caller) == 10


async def test_one_users_tokens_and_addresses_count_together(store: MemoryStore) -> None:
    budget = CallBudget(store, "10/minute")
    assert await made(budget, user("ann")) == 10
    assert await made(budget, Caller("192.0.2.9", principal=user("ann", "another app").principal)) == 0


@pytest.mark.parametrize(("limit", "burst"), [("3/minute", 3), ("30/minute", 10), ("300/minute", 30)])
async def test_a_tools_limit_lets_no_more_come_at_once_than_it_says(store: MemoryStore, limit: str, burst: int) -> None:
    budget = CallBudget(store, "1000/minute")
    tool = replace(TOOL, limit=limit)
    assert await made(budget, tool=tool) == burst
    quota = await budget.spend(ADDRESS, tool)
    assert quota.rate.name == "tool"
    assert quota.fault is not None
    assert quota.fault.message.startswith("Too many calls of this tool: at most")


async def test_each_tool_and_each_caller_has_a_count_of_its_own(store: MemoryStore) -> None:
    budget = CallBudget(store, "1000/minute")
    report, other = replace(TOOL, method="report", limit="2/hour"), replace(TOOL, method="other", limit="2/hour")
    assert await made(budget, tool=report) == 2
    assert await made(budget, tool=other) == 2
    assert await made(budget, user("ann"), report) == 2
    assert not (await budget.spend(ADDRESS, TOOL)).wait


async def test_a_new_rate_holds_at_once(store: MemoryStore, clock: ManualClock) -> None:
    await made(CallBudget(store, "10/day"))
    budget = CallBudget(store, "600/minute")
    assert (await budget.spend(ADDRESS, TOOL)).wait == 1
    clock.now += 1
    assert await made(budget) == 10


async def test_addresses_without_number_keep_no_caller_with_a_token_waiting(clock: ManualClock) -> None:
    budget = CallBudget(MemoryStore(clock, most=10), "1/hour")
    tool = replace(TOOL, limit="1/hour")
    for number in range(200):
        await made(budget, Caller(f"2001:db8:{number:x}::1"), tool)
    assert (await budget.spend(Caller("192.0.2.7"), tool)).wait
    assert not (await budget.spend(user("ann"), tool)).wait


def test_a_caller_has_so_many_calls_under_way_and_no_more() -> None:
    calls = ConcurrencyLimit()
    one, same, another = Caller("2001:db8::1"), Caller("2001:db8::2"), Caller("192.0.2.1")
    calls.most = 2
    begun = [calls.begin_call(one), calls.begin_call(same)]
    with pytest.raises(CallLimited, match="at most 2 may be under way") as caught:
        calls.begin_call(one)
    assert caught.value.retry_after == 1
    begun.append(calls.begin_call(another))
    for key in begun:
        calls.end(key)
    assert calls.total == 0
    calls.begin_call(one)
    calls.begin_call(one)


async def test_a_call_that_was_not_refused_asks_nobody_to_wait(store: MemoryStore) -> None:
    assert "Retry-After" not in (await CallBudget(store, "10/minute").spend(ADDRESS, TOOL)).headers


async def test_a_call_that_the_callers_rate_refuses_takes_nothing_of_its_tools_limit(store: MemoryStore) -> None:
    limited = replace(TOOL, limit="60/minute")
    budget = CallBudget(store, "60/minute")
    assert await made(budget) == 10
    for _ in range(20):
        assert (await budget.spend(ADDRESS, limited)).wait
    assert [await budget.spend_tool(ADDRESS, limited) for _ in range(10)] == [None] * 10
    assert await budget.spend_tool(ADDRESS, limited) is not None
