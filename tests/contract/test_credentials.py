"""The contract of every credential (:class:`gateway.credentials.Credential`).

The token endpoint is a real server on loopback; the tests set the clock.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from gateway import credentials
from gateway.credentials.contract import Credential
from gateway.credentials.exchange import GRANT_TYPE, MARGIN, UNKNOWN_LIFETIME
from gateway.credentials.grants import ACCESS_TOKEN_TYPE
from gateway.errors import AuthUnavailable, BackendUnavailable, Unauthorized
from gateway.model import AccessToken, Caller, Principal
from tests.authorization.token_endpoint import TokenEndpoint
from tests.contract.credentials import (
    BEGAN,
    FETCHED,
    ISSUER,
    LIFE,
    MODES,
    SECRET,
    SESSION,
    STATIC,
    World,
    credentials_world,
    shown,
)
from tests.each import each
from tests.waiting import PATIENCE


@pytest.fixture
async def world(endpoint: TokenEndpoint) -> AsyncIterator[World]:
    async with credentials_world(endpoint) as world:
        yield world


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=FETCHED)
def fetching(request: pytest.FixtureRequest) -> str:
    """Return each mode whose tokens come from the authorization server."""
    return str(request.param)


def test_each_mode_of_the_registry_is_tested_here() -> None:
    assert set(MODES) == credentials.MODES.keys()


# --- what a caller gets -----------------------------------------------------------------------------------------

WITH_TOKEN: Final = {
    "same_resource": "Bearer token-of-ann",
    "token_exchange": "Bearer token-of-ann.at-backend.1",
    "client_credentials": "Bearer the-gateway.at-backend.1",
    "static": STATIC,
    "basic": "Basic " + base64.b64encode(f"gw:{SECRET}".encode()).decode(),
    "digest": None,
    "login": f"Session {SESSION}",
    "none": None,
}


async def test_a_caller_with_a_token_gets_what_the_mode_says(world: World, mode: str) -> None:
    assert await shown(world.credential(mode), world.caller("ann")) == WITH_TOKEN[mode]
    assert len(world.endpoint.forms) == (mode in FETCHED)


async def test_a_caller_without_a_token_gets_nothing_that_is_somebody_elses(world: World, mode: str) -> None:
    credential = world.credential(mode)
    if mode == "token_exchange":
        with pytest.raises(Unauthorized, match="needs an access token"):
            await credential.request_parts(Caller())
        assert world.endpoint.forms == []
    else:
        expected = None if mode == "same_resource" else WITH_TOKEN[mode]
        assert await shown(credential, Caller()) == expected


async def test_each_caller_is_shown_as_itself(world: World, mode: str) -> None:
    credential = world.credential(mode)
    callers = [world.caller(subject) for subject in ("ann", "bob", "cy")] * 5
    found = await asyncio.gather(*(shown(credential, caller) for caller in callers))
    for caller, header in zip(callers, found, strict=True):
        assert caller.principal is not None
        others = {"ann", "bob", "cy"} - {caller.principal.subject}
        assert not any(f"token-of-{other}" in (header or "") for other in others)
    if mode in ("same_resource", "token_exchange"):
        assert len(set(found)) == 3


async def test_only_the_callers_own_token_counts_as_the_callers_own(world: World, mode: str) -> None:
    assert world.credential(mode).uses_callers_token is (mode == "same_resource")
    assert world.credential(mode).per_caller is (mode in ("same_resource", "token_exchange"))


async def test_a_new_token_of_the_same_caller_is_shown_at_once(world: World) -> None:
    for mode in ("same_resource", "token_exchange"):
        credential = world.credential(mode)
        before = world.caller("ann")
        assert before.principal is not None
        after = Caller(
            principal=Principal(ISSUER, "ann", "client", frozenset(), BEGAN + LIFE, AccessToken("refreshed"))
        )
        assert "token-of-ann" in (await shown(credential, before) or "")
        assert "refreshed" in (await shown(credential, after) or "")


# --- secrets stay hidden ----------------------------------------------------------------------------------------


async def test_repr_and_logs_show_no_secret(world: World, mode: str) -> None:
    credential = world.credential(mode)
    answers = [
        (200, None),
        (400, {"error": "invalid_client"}),
        (400, {"error": "invalid_grant"}),
        (500, {}),
        (200, b""),
    ]
    with capture_logs() as lines:
        found = []
        for status, body in answers:
            world.endpoint.answer = lambda form, status=status, body=body: (
                status,
                world.endpoint.grant(form, expires_in=1) if body is None else body,
            )
            with suppress(Unauthorized, BackendUnavailable, AuthUnavailable):
                found.append(await shown(credential, world.caller("ann")))
    seen = repr(credential) + str(credential) + repr(lines) + repr(world.caller("ann"))
    for secret in (SECRET, STATIC, STATIC.split()[1], "token-of-ann", "at-backend", SESSION):
        assert secret not in seen
    assert found, "the first answer is a good one"


async def test_secrets_are_listed_so_that_answers_can_be_cleaned_of_them(world: World, mode: str) -> None:
    known = {SECRET}
    expected = {
        "token_exchange": known, "client_credentials": known, "static": {STATIC, STATIC.split()[1]},
        "basic": known, "digest": known, "login": {SECRET, "Session {session}", "{password}"},
    }  # fmt: skip
    assert set(world.credential(mode).secrets()) == expected.get(mode, set())


# --- what the token endpoint is asked ---------------------------------------------------------------------------


async def test_an_exchange_asks_as_rfc_8693_has_it(world: World) -> None:
    await world.credential("token_exchange").request_parts(world.caller("ann"))
    assert world.endpoint.forms == [
        {
            "grant_type": GRANT_TYPE,
            "subject_token": "token-of-ann",
            "subject_token_type": ACCESS_TOKEN_TYPE,
            "requested_token_type": ACCESS_TOKEN_TYPE,
            "audience": "https://backend.example.com",
            "scope": "rpc.call",
        }
    ]
    assert world.endpoint.clients == ["gw:s3cret%3Awith%2Fcolon"]  # form-encoded first, RFC 6749 §2.3.1


async def test_a_token_of_our_own_is_asked_for_in_nobodys_name(world: World) -> None:
    await world.credential("client_credentials").request_parts(world.caller("ann"))
    asked = {"grant_type": "client_credentials", "resource": "https://backend.example.com/rpc"}
    assert world.endpoint.forms == [asked]


# --- concurrent callers -----------------------------------------------------------------------------------------


async def test_many_callers_at_once_cost_one_exchange(world: World, fetching: str) -> None:
    credential = world.credential(fetching)
    world.endpoint.gate.clear()
    waiting = [asyncio.create_task(shown(credential, world.caller("ann"))) for _ in range(100)]
    async with asyncio.timeout(PATIENCE):
        await world.endpoint.arrived.wait()
        world.endpoint.gate.set()
        assert set(await asyncio.gather(*waiting)) == {WITH_TOKEN[fetching]}
    assert len(world.endpoint.forms) == 1


async def test_who_hangs_up_does_not_end_the_exchange_for_the_others(world: World, fetching: str) -> None:
    credential = world.credential(fetching)
    world.endpoint.gate.clear()
    first, second = (asyncio.create_task(shown(credential, world.caller("ann"))) for _ in range(2))
    async with asyncio.timeout(PATIENCE):
        await world.endpoint.arrived.wait()
        first.cancel()
        await asyncio.wait([first])
        world.endpoint.gate.set()
        assert await second == WITH_TOKEN[fetching]
    assert first.cancelled()
    assert len(world.endpoint.forms) == 1


async def test_a_failure_whose_callers_are_gone_troubles_nobody(world: World, fetching: str) -> None:
    troubles: list[Mapping[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    credential = world.credential(fetching)
    world.endpoint.gate.clear()
    world.endpoint.answer = lambda form: (400, {"error": "invalid_request"})
    before = asyncio.all_tasks()
    only = asyncio.create_task(shown(credential, world.caller("ann")))
    async with asyncio.timeout(PATIENCE):
        await world.endpoint.arrived.wait()
        only.cancel()
        await asyncio.wait([only])
        exchanges = [task for task in asyncio.all_tasks() - before if "_request_parts" in repr(task.get_coro())]
        assert len(exchanges) == 1
        world.endpoint.gate.set()
        await asyncio.wait(exchanges)
    del exchanges, only
    assert troubles == []


async def test_a_failure_is_not_kept(world: World, fetching: str) -> None:
    credential = world.credential(fetching)
    world.endpoint.answer = lambda form: (503, {})
    with pytest.raises(AuthUnavailable):
        await credential.request_parts(world.caller("ann"))
    world.endpoint.answer = lambda form: (200, world.endpoint.grant(form))
    assert (await shown(credential, world.caller("ann")) or "").endswith(".at-backend.2")


# --- how long a token is kept -----------------------------------------------------------------------------------


async def keeps_for(world: World, credential: Credential, caller: Caller, seconds: float) -> None:
    """Assert that one token is used for exactly ``seconds``."""
    first = await shown(credential, caller)
    world.now += seconds - 0.5
    assert await shown(credential, caller) == first
    world.now += 0.5
    assert await shown(credential, caller) != first


async def test_a_token_is_used_until_shortly_before_its_end(world: World, fetching: str) -> None:
    await keeps_for(world, world.credential(fetching), world.caller("ann"), 300 - MARGIN)


async def test_an_exchanged_token_is_not_used_beyond_the_token_it_was_had_for(world: World) -> None:
    caller = world.caller("ann", expires=BEGAN + 100)
    await keeps_for(world, world.credential("token_exchange"), caller, 100 - MARGIN)


@each("unsaid", [None, "300", True, {}, [300]])
async def test_a_life_that_is_not_told_is_taken_to_be_short(world: World, fetching: str, unsaid: Any) -> None:
    world.endpoint.answer = lambda form: (200, world.endpoint.grant(form, expires_in=unsaid))
    await keeps_for(world, world.credential(fetching), world.caller("ann"), UNKNOWN_LIFETIME)


@each("seconds", [0, -1, 29, 30, -(10**400)])
async def test_a_token_that_is_about_to_end_is_used_once(world: World, fetching: str, seconds: int) -> None:
    world.endpoint.answer = lambda form: (200, world.endpoint.grant(form, expires_in=seconds))
    credential = world.credential(fetching)
    assert await shown(credential, world.caller("ann")) != await shown(credential, world.caller("ann"))


@each("seconds", [10**400, 10**12, 1e300])
async def test_a_life_beyond_reason_is_a_day_at_most(world: World, seconds: float) -> None:
    world.endpoint.answer = lambda form: (200, world.endpoint.grant(form, expires_in=seconds))
    await keeps_for(world, world.credential("client_credentials"), world.caller("ann"), 86400 - MARGIN)


# --- what the backend refuses -----------------------------------------------------------------------------------


async def test_what_the_backend_refuses_is_had_anew_for_that_caller(world: World, mode: str) -> None:
    credential = world.credential(mode)
    ann, bob = world.caller("ann"), world.caller("bob")
    before = [await shown(credential, one) for one in (ann, bob)]
    credential.discard_token(Caller())
    credential.discard_token(ann)
    after = [await shown(credential, one) for one in (ann, bob)]
    assert (after[0] != before[0]) is (mode in FETCHED)
    assert (after[1] != before[1]) is (mode == "client_credentials"), "which all callers share"
