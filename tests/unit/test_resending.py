"""What may be sent a second time, and how often that may be in all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backend.resending import Attempts, Reason, ResendBudget
from tests.each import each
from tests.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def attempts(clock: ManualClock, budget: ResendBudget | None = None, *, repeatable: bool = False) -> Attempts:
    made = Attempts("ada", "echo", 30.0, budget or ResendBudget(clock), repeatable, clock)
    assert made.seconds_left() == 30.0
    return made


TABLE = {
    Reason.UNSENT: (True, True),
    Reason.BROKEN_OFF: (False, True),
    Reason.PARAMS_REFUSED: (False, True),
    Reason.CREDENTIAL_REFUSED: (True, True),
}


@each("repeatable", {"any tool": False, "a marked tool": True})
@each("reason", Reason)
def test_a_call_is_sent_again_as_the_table_says_and_once_for_each_reason(
    clock: ManualClock, reason: Reason, repeatable: bool
) -> None:
    call = attempts(clock, repeatable=repeatable)
    assert call.may_repeat(reason) is TABLE[reason][repeatable]
    assert not call.may_repeat(reason)


@each("reason", Reason)
def test_nothing_is_sent_again_after_the_deadline(clock: ManualClock, reason: Reason) -> None:
    call = attempts(clock, repeatable=True)
    clock.now += 30
    assert not call.may_repeat(reason)


def test_the_deadline_counts_from_the_first_look(clock: ManualClock) -> None:
    call = attempts(clock)
    clock.now += 10
    assert call.seconds_left() == 20.0


def test_however_few_calls_there_are_ten_may_be_sent_again_in_ten_seconds(clock: ManualClock) -> None:
    budget = ResendBudget(clock)
    assert [attempts(clock, budget).may_repeat(Reason.UNSENT) for _ in range(12)] == [True] * 10 + [False] * 2
    clock.now += 9.9
    assert not attempts(clock, budget).may_repeat(Reason.UNSENT)
    clock.now += 0.1
    assert attempts(clock, budget).may_repeat(Reason.UNSENT)


def test_of_many_calls_a_tenth_may_be_sent_again(clock: ManualClock) -> None:
    budget = ResendBudget(clock)
    for _ in range(500):
        clock.now += 0.01
        attempts(clock, budget)
    assert [budget.spend() for _ in range(51)] == [True] * 50 + [False]


@each("reason", [Reason.PARAMS_REFUSED, Reason.CREDENTIAL_REFUSED])
def test_what_the_service_refused_to_run_takes_nothing_of_the_budget(clock: ManualClock, reason: Reason) -> None:
    budget = ResendBudget(clock)
    assert all(attempts(clock, budget, repeatable=True).may_repeat(reason) for _ in range(50))
    assert budget.spend()


@given(st.lists(st.tuples(st.floats(0, 2), st.booleans()), max_size=200))
def test_in_no_nine_seconds_more_are_sent_again_than_ten_and_a_tenth_of_the_calls(
    steps: list[tuple[float, bool]],
) -> None:
    clock = ManualClock()
    budget = ResendBudget(clock)
    calls: list[float] = []
    again: list[float] = []
    for pause, fails in steps:
        clock.now += pause
        calls.append(clock.now)
        call = attempts(clock, budget)
        if fails and call.may_repeat(Reason.UNSENT):
            again.append(clock.now)
        # A count may begin up to a second before what it holds.
        lately = [moment for moment in again if clock.now - moment < 9.0]
        earlier = [moment for moment in calls if clock.now - moment < 19.0]
        assert len(lately) <= max(10, 0.1 * len(earlier))
