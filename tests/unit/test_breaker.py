"""When calls are refused because the service does not answer, to whom, and when they go through again."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backend.breaker import PREFERENCE, Breaker, CircuitOpen
from gateway.http_client.response import BadHttp, ConnectFailed, DeadlinePassed, Interrupted, NoConnection
from tests.manual_clock import ManualClock

REFUSED = ConnectFailed("connection refused")
LATE = DeadlinePassed("no complete answer")
OF_ALL = "The backend does not answer at the moment"
OF_TOOL = "The backend does not answer calls of this tool at the moment"
OF_MINE = "The backend answered none of your last calls in time"
OF_MY_TOOL = "The backend answered none of your last calls of this tool in time"


class Service:
    """A breaker, and what it is told of a service. An exchange takes no time unless it says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answers: defaultdict[Hashable, float] = defaultdict(lambda: -math.inf)
        self.breaker = Breaker(self.answers.__getitem__, self.clock)

    def fails(
        self, times: int, error: Exception = REFUSED, tool: str = "echo", caller: str = "ann", lasted: float = 0.0
    ) -> None:
        for _ in range(times):
            self.breaker.fail(caller, tool, error, lasted)

    def answers_call(self, tool: str | None = "echo") -> None:
        """Without a tool, it answers a listing."""
        self.breaker.succeed(tool)
        self.answers[tool] = self.answers[None] = self.clock.now
        self.clock.now += 0.001

    def refusal(self, tool: str = "echo", caller: str = "ann") -> str | None:
        """Let an exchange pass, or return why it does not."""
        try:
            self.breaker.enter(caller, tool)
        except CircuitOpen as error:
            return str(error)
        return None

    def admits(self, tool: str = "echo", caller: str = "ann") -> bool:
        return self.refusal(tool, caller) is None

    def times_out_for_all(self) -> None:
        """Two tools of two callers do."""
        for caller in ("ann", "bob"):
            self.fails(10, LATE, f"{caller}'s", caller)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.mark.parametrize("error", [REFUSED, NoConnection("no free connection")])
def test_ten_exchanges_without_a_connection_and_none_with_one_open_it_whoever_calls(
    service: Service, error: Exception
) -> None:
    service.fails(9, error)
    assert service.admits()
    service.fails(1, error)
    assert service.refusal() == service.refusal("another tool", "bob") == OF_ALL
    assert repr(service.breaker) == "<Breaker: open, 0 tools open>"


def test_failures_count_together_within_ten_seconds(service: Service) -> None:
    service.fails(1)
    service.clock.now += 10.1
    service.fails(9)
    assert service.admits()
    service.clock.now += 9.9
    service.fails(1)
    assert not service.admits()


def test_time_outs_count_together_within_ten_seconds_and_the_time_that_one_takes(service: Service) -> None:
    """One caller has at most 16 exchanges of a tool at a time, so the last of twenty end a time-out later."""
    service.fails(16, LATE, lasted=30.0)
    service.clock.now += 39.9
    service.fails(3, LATE, lasted=30.0)
    assert service.admits()
    service.fails(1, LATE, lasted=30.0)
    assert not service.admits()


@pytest.mark.parametrize("tool", ["echo", None])
def test_an_answer_in_between_also_to_a_listing_starts_the_count_anew(service: Service, tool: str | None) -> None:
    service.fails(9)
    service.answers_call(tool)
    service.fails(9)
    assert service.admits()


def test_an_open_one_lets_one_a_second_pass_also_before_the_last_has_ended(service: Service) -> None:
    service.fails(10)
    for _ in range(5):
        assert not service.admits()
        service.clock.now += 1.0
        assert service.admits()
        assert not service.admits()


def test_who_passes_is_told_whether_it_was_open(service: Service) -> None:
    assert not service.breaker.enter("ann", "echo")
    service.fails(9)
    assert not service.breaker.enter("ann", "echo")
    service.fails(1)
    with pytest.raises(CircuitOpen) as caught:
        service.breaker.enter("ann", "echo")
    assert not caught.value.sent
    service.clock.now += 1
    assert service.breaker.enter("ann", "echo")


def test_the_first_success_closes_it(service: Service) -> None:
    service.fails(60)
    assert service.breaker.is_open
    service.answers_call()
    assert not service.breaker.is_open
    assert [service.admits(), service.admits()] == [True, True]


def test_time_outs_of_one_tool_close_that_tool_alone(service: Service) -> None:
    service.fails(10, LATE, "hung", "ann")
    service.fails(9, LATE, "hung", "bob")
    assert service.admits("hung")
    service.fails(1, LATE, "hung", "bob")
    assert service.refusal("hung", "ann") == service.refusal("hung", "carl") == OF_TOOL
    assert service.admits("echo")
    assert repr(service.breaker) == "<Breaker: closed, 1 tools open>"


def test_twenty_time_outs_of_two_tools_and_two_callers_open_it_for_all(service: Service) -> None:
    service.fails(19, LATE, "one", "ann")
    assert service.admits("echo")
    service.fails(1, LATE, "other", "bob")
    assert service.breaker.is_open
    assert service.refusal("echo", "carl") == OF_ALL


def test_time_outs_of_one_caller_refuse_this_caller_alone_and_say_so(service: Service) -> None:
    service.fails(20, LATE, "hung")
    assert service.refusal("hung", "ann") == OF_MY_TOOL
    assert service.admits("hung", "bob")
    service.fails(20, LATE, "other")
    assert service.refusal("echo", "ann") == OF_MINE
    assert service.admits("echo", "bob")
    assert not service.breaker.is_open


def test_a_second_caller_without_an_answer_opens_it_for_all(service: Service) -> None:
    service.fails(40, LATE, "hung", "ann")
    service.fails(1, LATE, "hung", "bob")
    assert service.refusal("hung", "carl") == OF_TOOL


def test_two_callers_whose_calls_are_refused_each_for_itself_are_two(service: Service) -> None:
    service.fails(20, LATE, "hung", "ann")
    service.clock.now += 60
    service.fails(19, LATE, "hung", "bob")
    assert service.admits("hung", "carl")
    service.fails(1, LATE, "hung", "bob")
    assert not service.admits("hung", "carl")


def test_a_time_out_does_not_count_if_the_service_has_answered_anybody_since_it_was_sent(service: Service) -> None:
    service.answers_call("echo")
    for caller in ("ann", "bob"):
        for tool in ("one", "other"):
            service.fails(20, LATE, tool, caller, lasted=0.002)  # sent before that answer
    assert not service.breaker.is_open
    assert not service.admits("one", "carl")  # no answer of this tool


def test_a_time_out_does_not_count_against_a_tool_that_has_answered_anybody_since_it_was_sent(service: Service) -> None:
    """Only these arguments hang."""
    service.answers_call("echo")
    for caller in ("ann", "bob"):
        service.fails(40, LATE, "echo", caller, lasted=0.002)
    assert service.admits("echo", "ann")
    assert service.breaker.is_calm
    for caller in ("ann", "bob"):
        service.fails(10, LATE, "echo", caller, lasted=0.0005)  # sent after that answer
    assert not service.admits("echo", "ann")


def test_a_tool_that_answers_keeps_the_service_open_while_others_hang(service: Service) -> None:
    for _ in range(4):
        for caller in ("ann", "bob"):
            service.fails(3, LATE, "one", caller)
            service.fails(3, LATE, "other", caller)
        service.answers_call("echo")
    assert service.admits("echo")
    assert not service.admits("one")
    assert not service.admits("other")


def test_a_tools_own_answer_alone_closes_its_breaker(service: Service) -> None:
    service.fails(20, LATE, "hung")
    service.answers_call("echo")
    assert not service.admits("hung")
    service.answers_call("hung")
    assert service.admits("hung")
    assert service.admits("hung")


def test_a_tool_that_may_not_be_asked_takes_no_turn_of_the_services(service: Service) -> None:
    service.fails(10, REFUSED)
    service.clock.now += 0.5
    for caller in ("ann", "bob"):
        service.fails(10, LATE, "hung", caller)
    service.clock.now += 0.5
    assert not service.admits("hung", "carl")
    assert service.admits("echo", "carl")


def test_a_call_that_passes_is_of_a_tool_and_a_caller_without_a_time_out(service: Service) -> None:
    service.times_out_for_all()
    service.clock.now += 1.0
    assert not service.admits("echo", "ann")  # a caller whose calls hang
    assert not service.admits("bob's", "carl")  # a tool that hangs
    assert service.admits("echo", "carl")
    assert not service.admits("echo", "carl")


def test_where_no_such_call_came_for_two_seconds_any_may_pass_each_second(service: Service) -> None:
    service.times_out_for_all()
    service.clock.now += PREFERENCE - 0.1
    assert not service.admits("ann's", "ann")
    service.clock.now += 0.1
    for _ in range(3):
        assert service.admits("ann's", "ann")
        assert not service.admits("ann's", "ann")
        service.clock.now += 1.0
    assert service.admits("echo", "carl")
    service.clock.now += PREFERENCE - 0.1
    assert not service.admits("ann's", "ann")
    service.clock.now += 0.1
    assert service.admits("ann's", "ann")


def test_the_two_seconds_begin_with_the_first_time_out_that_counts(service: Service) -> None:
    service.fails(10, LATE, "hung", "ann")
    service.clock.now += 0.8
    service.fails(10, LATE, "hung", "bob")
    service.clock.now += 1.1
    assert not service.admits("hung", "ann")
    service.clock.now += 0.1
    assert service.admits("hung", "ann")


def test_who_timed_out_before_the_last_answer_may_pass_at_once(service: Service) -> None:
    service.fails(1, LATE, "echo", "carl")
    service.clock.now += 1.0
    service.answers_call("echo")
    service.times_out_for_all()
    service.clock.now += 1.0
    assert service.admits("echo", "carl")


def test_without_connections_every_call_may_pass_whatever_timed_out(service: Service) -> None:
    service.fails(1, LATE, "echo", "ann")
    service.answers_call("echo")
    service.fails(10, REFUSED)
    service.clock.now += 1.0
    assert service.admits("echo", "ann")


def test_one_caller_who_is_refused_is_asked_for_again_after_two_seconds_and_then_each_second(service: Service) -> None:
    service.fails(20, LATE, "hung", "ann")
    passed = []
    for _ in range(60):
        passed.append(service.admits("hung", "ann"))
        service.clock.now += 0.1
    assert [number for number, admitted in enumerate(passed) if admitted] == [20, 30, 40, 50]


def test_however_many_callers_and_tools_time_out_what_is_remembered_is_bounded(service: Service) -> None:
    for number in range(25_000):
        service.fails(1, LATE, f"tool {number}", f"caller {number}")
        service.clock.now += 1.0
    breaker = service.breaker
    kept = (breaker._tools, breaker._late_callers, breaker._late_tools)
    assert [len(each) for each in kept] == [10_000] * 3
    assert len(breaker._timeout_circuit._failures) <= 20


@pytest.mark.parametrize("error", [Interrupted("broken off"), BadHttp("not HTTP")])
def test_what_got_a_connection_and_did_not_time_out_opens_nothing(service: Service, error: Exception) -> None:
    service.fails(100, error)
    assert service.admits()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["refused", "late", "answer", "call"]),
        st.sampled_from("abc"),
        st.sampled_from("xyz"),
        st.floats(0.001, 3),
        st.floats(0, 5),
    ),
    max_size=120,
)


@given(steps=STEPS)
def test_it_refuses_only_where_so_many_failed_without_an_answer_and_for_no_longer_than_two_seconds(
    steps: list[tuple[str, str, str, float, float]],
) -> None:
    service = Service()
    refused = 0
    late: list[tuple[str, str]] = []
    late_of = {tool: list[str]() for tool in "abc"}
    for kind, tool, caller, pause, lasted in steps:
        service.clock.now += pause
        sent_at = service.clock.now - lasted
        if kind == "answer":
            service.answers_call(tool)
            refused = 0
            late.clear()
            late_of[tool].clear()
        elif kind == "call":
            if not service.admits(tool, caller):
                of_two = len(late) >= 20 and len({one for one, _ in late}) >= 2
                of_one = [one for one, _ in late].count(caller) >= 20
                of_tool = len(late_of[tool]) >= 20
                assert refused >= 10 or of_two or of_one or of_tool
                service.clock.now += 2
                assert service.admits(tool, caller)
        elif kind == "refused":
            refused += 1
            service.fails(1, REFUSED, tool, caller)
        else:
            if service.answers[None] <= sent_at:
                late.append((caller, tool))
            if service.answers[tool] <= sent_at:
                late_of[tool].append(caller)
            service.fails(1, LATE, tool, caller, lasted)
