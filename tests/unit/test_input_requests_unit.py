"""Rounds as a clock and other callers see them; over HTTP: tests/protocol/test_input_requests.py and
test_confirm.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import InvalidParams
from gateway.invocation.input_requests import CONFIRM, TTL, WAIT, InputRequests
from gateway.model import AccessToken, Binding, Caller, CallExtras, InputRequest, Principal, Structure, Tool
from gateway.signing import SKEW, SigningKeys
from gateway.store.memory import MemoryStore
from tests.manual_clock import ManualClock


def somebody(subject: str, token: str = "t") -> Caller:
    """One of many who see the same tools."""
    scopes = frozenset({"read"})
    principal = Principal("https://login.example.com", subject, "app", scopes, 2_000_000_000.0, AccessToken(token))
    return Caller(principal=principal)


ADA, BOB = somebody("ada"), somebody("bob")
TOOL = Tool("drop", "db.drop", "Drop a table", {}, Binding("db.drop", Structure.BY_NAME), confirm=True)
ARGUMENTS = {"table": "users"}
KEYS = SigningKeys((b"a secret of sixteen bytes and more",), "https://gateway.example.com/mcp")
ROOTS = {"where": {"method": "roots/list"}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000.0)


@pytest.fixture
def rounds(clock: ManualClock) -> InputRequests:
    return InputRequests(KEYS, MemoryStore(clock), clock)


def extras(**responses: Any) -> CallExtras:
    return CallExtras(responses, capabilities={"elicitation": {}, "roots": {}})


async def asked(rounds: InputRequests, caller: Caller = ADA) -> str:
    """The state that comes with our own question."""
    ask = await rounds.request_consent(extras(), None, caller, TOOL, ARGUMENTS)
    assert isinstance(ask, InputRequest)
    assert ask.state is not None
    return ask.state


async def agree(rounds: InputRequests, state: str, caller: Caller = ADA) -> InputRequest | None:
    read = rounds.read_state(state, caller, TOOL, ARGUMENTS)
    return await rounds.request_consent(extras(**{CONFIRM: {"action": "accept"}}), read, caller, TOOL, ARGUMENTS)


async def test_a_question_waits_some_minutes_for_its_answer_and_no_longer(
    rounds: InputRequests, clock: ManualClock
) -> None:
    first, second = await asked(rounds), await asked(rounds)
    clock.now += TTL - 1
    assert await agree(rounds, first) is None
    clock.now += 1
    with pytest.raises(InvalidParams, match="too old"):
        await agree(rounds, second)


async def test_a_state_is_good_for_as_long_as_a_person_is_waited_for(rounds: InputRequests, clock: ManualClock) -> None:
    """Its answer is on the way when the wait ends."""
    state = await asked(rounds)
    clock.now += WAIT + 1
    assert await agree(rounds, state) is None


async def test_the_answer_to_a_question_counts_as_the_first_one_time_for_as_long_as_its_state_is_good(
    rounds: InputRequests, clock: ManualClock
) -> None:
    """A call of several rounds is counted once against the limits, and no state makes another call free."""
    for tool in (TOOL, replace(TOOL, confirm=False, input_required=True)):
        ask = await rounds.request_consent(extras(), None, ADA, tool, ARGUMENTS)
        assert ask is not None
        assert ask.state is not None
        assert not await rounds.is_first_answer(ask.state, BOB, tool, ARGUMENTS)
        assert not await rounds.is_first_answer("forged", ADA, tool, ARGUMENTS)
        assert await rounds.is_first_answer(ask.state, ADA, tool, ARGUMENTS)
        for wait in (0, TTL - 1, 1):
            clock.now += wait
            assert not await rounds.is_first_answer(ask.state, ADA, tool, ARGUMENTS)
    plain = replace(TOOL, confirm=False)
    asked_for_it = await rounds.request_consent(extras(), None, ADA, plain, ARGUMENTS)
    assert asked_for_it is not None
    assert asked_for_it.state is not None
    assert not await rounds.is_first_answer(asked_for_it.state, ADA, plain, ARGUMENTS), "nothing was asked"


async def test_a_consent_stays_used_until_it_would_be_too_old_anyway(rounds: InputRequests, clock: ManualClock) -> None:
    """Its trace must not be forgotten before the state itself expires."""
    state = await asked(rounds)
    clock.now += TTL / 2
    assert await agree(rounds, state) is None
    for wait in (0, TTL / 4, TTL / 4 - 1, 1, TTL):
        clock.now += wait
        with pytest.raises(InvalidParams):
            await agree(rounds, state)


async def test_a_consent_from_a_replica_whose_clock_is_ahead_stays_used_for_as_long(clock: ManualClock) -> None:
    ahead = ManualClock(1_800_000_000.0)
    ahead.now += SKEW
    store = MemoryStore(clock)
    state = await asked(InputRequests(KEYS, store, ahead))
    here = InputRequests(KEYS, store, clock)
    assert await agree(here, state) is None
    for wait in (0, TTL - 1, 1, SKEW - 1, 1):
        clock.now += wait
        with pytest.raises(InvalidParams):
            await agree(here, state)


async def test_asking_again_gives_the_person_the_whole_time_again(rounds: InputRequests, clock: ManualClock) -> None:
    state = await asked(rounds)
    clock.now += TTL - 1
    ask = await rounds.request_consent(extras(), rounds.read_state(state, ADA, TOOL, ARGUMENTS), ADA, TOOL, ARGUMENTS)
    assert ask is not None
    assert ask.state is not None
    clock.now += TTL - 1
    assert await agree(rounds, ask.state) is None


async def test_a_state_is_its_caller_s_alone(rounds: InputRequests) -> None:
    """What one person agreed to is not another's consent."""
    state = await asked(rounds)
    with pytest.raises(InvalidParams):
        await agree(rounds, state, BOB)
    with pytest.raises(InvalidParams):
        await agree(rounds, state, Caller())
    assert await agree(rounds, state) is None


async def test_a_state_outlives_the_token_it_was_asked_for_with(rounds: InputRequests) -> None:
    state = await asked(rounds)
    assert await agree(rounds, state, somebody("ada", "refreshed")) is None


async def test_replicas_share_the_use_of_a_consent_by_their_store(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    one, other = (InputRequests(KEYS, store, clock) for _ in range(2))
    state = await asked(one)
    assert await agree(other, state) is None
    with pytest.raises(InvalidParams, match="used before"):
        await agree(one, state)


async def test_a_backend_s_question_expires_as_well(rounds: InputRequests, clock: ManualClock) -> None:
    question = {"resultType": "input_required", "inputRequests": ROOTS, "requestState": "own"}
    state = rounds.request_input(question, extras(), ADA, TOOL, ARGUMENTS).state
    assert state is not None
    clock.now += TTL - 1
    read = rounds.read_state(state, ADA, TOOL, ARGUMENTS)
    assert (read.backend, read.consent) == ("own", True)
    clock.now += 1
    with pytest.raises(InvalidParams, match="too old"):
        rounds.read_state(state, ADA, TOOL, ARGUMENTS)
