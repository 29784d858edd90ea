"""When calls are refused because the service does not answer, and when they go through again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backend.breaker import Breaker, CircuitOpen
from gateway.outbound import BadHttp, ConnectFailed, DeadlinePassed, Interrupted, NoConnection, OutboundError
from tests.manual_clock import ManualClock

REFUSED = ConnectFailed("connection refused")
LATE = DeadlinePassed("no complete answer")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> Breaker:
    return Breaker(clock)


def fail(breaker: Breaker, times: int, error: OutboundError = REFUSED, tool: str = "echo") -> None:
    for _ in range(times):
        breaker.fail(tool, error)


def admits(breaker: Breaker, tool: str = "echo") -> bool:
    """Whether an exchange goes through; it counts as one that does."""
    try:
        breaker.enter(tool)
    except CircuitOpen:
        return False
    return True


@pytest.mark.parametrize("error", [REFUSED, NoConnection("no free connection")])
def test_ten_exchanges_without_a_connection_and_none_with_one_open_it(breaker: Breaker, error: OutboundError) -> None:
    fail(breaker, 9, error)
    assert admits(breaker)
    fail(breaker, 1, error)
    assert not admits(breaker)
    assert not admits(breaker, "another tool")
    assert repr(breaker) == "<Breaker: open, 0 tools open>"


def test_failures_count_together_within_ten_seconds(breaker: Breaker, clock: ManualClock) -> None:
    fail(breaker, 1)
    clock.now += 10.1
    fail(breaker, 9)
    assert admits(breaker)
    clock.now += 9.9
    fail(breaker, 1)
    assert not admits(breaker)


def test_a_success_in_between_starts_the_count_anew(breaker: Breaker) -> None:
    fail(breaker, 9)
    breaker.succeed("echo")
    fail(breaker, 9)
    assert admits(breaker)


def test_a_listing_that_came_is_a_success_too(breaker: Breaker) -> None:
    fail(breaker, 10)
    breaker.succeed()
    assert admits(breaker)


def test_an_open_one_lets_one_a_second_pass_also_before_the_last_has_ended(
    breaker: Breaker, clock: ManualClock
) -> None:
    fail(breaker, 10)
    for _ in range(5):
        assert not admits(breaker)
        clock.now += 1.0
        assert admits(breaker)
        assert not admits(breaker)


def test_who_passes_is_told_whether_it_was_open(breaker: Breaker, clock: ManualClock) -> None:
    assert not breaker.enter("echo")
    fail(breaker, 9)
    assert not breaker.enter("echo")
    fail(breaker, 1)
    with pytest.raises(CircuitOpen) as caught:
        breaker.enter("echo")
    assert not caught.value.sent
    clock.now += 1
    assert breaker.enter("echo")


def test_the_first_success_closes_it(breaker: Breaker) -> None:
    fail(breaker, 60)
    assert breaker.is_open
    breaker.succeed("echo")
    assert not breaker.is_open
    assert admits(breaker)
    assert admits(breaker)


def test_time_outs_of_one_tool_close_that_tool_alone(breaker: Breaker) -> None:
    fail(breaker, 19, LATE, "hung")
    assert admits(breaker, "hung")
    fail(breaker, 1, LATE, "hung")
    assert not admits(breaker, "hung")
    assert admits(breaker, "echo")
    assert repr(breaker) == "<Breaker: closed, 1 tools open>"


def test_twenty_time_outs_of_two_tools_and_no_success_open_it_for_all(breaker: Breaker) -> None:
    fail(breaker, 19, LATE, "one")
    assert admits(breaker, "echo")
    fail(breaker, 1, LATE, "other")
    assert not admits(breaker, "echo")


def test_a_tool_that_answers_keeps_the_service_open_while_others_hang(breaker: Breaker) -> None:
    for _ in range(4):
        fail(breaker, 6, LATE, "one")
        fail(breaker, 6, LATE, "other")
        breaker.succeed("echo")
    assert admits(breaker, "echo")
    assert not admits(breaker, "one")
    assert not admits(breaker, "other")


def test_a_tools_own_answer_alone_closes_its_breaker(breaker: Breaker, clock: ManualClock) -> None:
    fail(breaker, 20, LATE, "hung")
    breaker.succeed("echo")
    assert not admits(breaker, "hung")
    clock.now += 1
    assert admits(breaker, "hung")
    breaker.succeed("hung")
    assert admits(breaker, "hung")
    assert admits(breaker, "hung")


def test_a_tool_that_may_not_be_asked_takes_no_turn_of_the_services(breaker: Breaker, clock: ManualClock) -> None:
    fail(breaker, 20, LATE, "hung")
    fail(breaker, 10, REFUSED)
    clock.now += 0.5
    fail(breaker, 1, LATE, "hung")
    clock.now += 0.5
    assert admits(breaker, "hung")
    clock.now += 1
    assert admits(breaker, "echo")


@pytest.mark.parametrize("error", [Interrupted("broken off"), BadHttp("not HTTP")])
def test_what_got_a_connection_and_did_not_time_out_opens_nothing(breaker: Breaker, error: OutboundError) -> None:
    fail(breaker, 100, error)
    assert admits(breaker)


STEPS = st.lists(
    st.tuples(st.sampled_from(["refused", "late", "answer", "call"]), st.sampled_from("abc"), st.floats(0, 3)),
    max_size=120,
)


@given(steps=STEPS)
def test_it_never_refuses_while_the_service_answers_nor_for_longer_than_a_second(
    steps: list[tuple[str, str, float]],
) -> None:
    clock = ManualClock()
    breaker = Breaker(clock)
    failures = {"refused": 0, "late": 0}
    of_tool = dict.fromkeys("abc", 0)
    for kind, tool, pause in steps:
        clock.now += pause
        if kind == "answer":
            breaker.succeed(tool)
            failures = dict.fromkeys(failures, 0)
            of_tool[tool] = 0
        elif kind == "call":
            if not admits(breaker, tool):
                assert failures["refused"] >= 10 or failures["late"] >= 20 or of_tool[tool] >= 20
                clock.now += 1
                assert admits(breaker, tool)
        else:
            failures[kind] += 1
            of_tool[tool] += kind == "late"
            breaker.fail(tool, REFUSED if kind == "refused" else LATE)
