"""Let the authorization server fail, refuse, or answer nonsense: the error says whose fault it is, and no other token
is tried."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from gateway.errors import AuthUnavailable, BackendUnavailable, Unauthorized
from tests.authorization.token_endpoint import TokenEndpoint
from tests.contract.credentials import FETCHED, World, credentials_world
from tests.each import each
from tests.tables import each_row_and


@pytest.fixture
async def world(endpoint: TokenEndpoint) -> AsyncIterator[World]:
    async with credentials_world(endpoint) as world:
        yield world


@pytest.fixture(params=FETCHED)
def fetching(request: pytest.FixtureRequest) -> str:
    """Return each mode whose tokens come from the authorization server."""
    return str(request.param)


@each("status", [500, 502, 503, 429])
async def test_a_server_that_fails_is_503_and_no_verdict_on_the_token(world: World, fetching: str, status: int) -> None:
    world.endpoint.answer = lambda form: (status, {"error": "server_error"})
    with pytest.raises(AuthUnavailable) as caught:
        await world.credential(fetching).request_parts(world.caller("ann"))
    assert (caught.value.status, caught.value.retry_after) == (503, 5)


async def test_a_server_that_does_not_answer_in_time_is_503(world: World, fetching: str) -> None:
    world.timeout = 0.05
    world.endpoint.gate.clear()
    with pytest.raises(AuthUnavailable):
        await world.credential(fetching).request_parts(world.caller("ann"))


async def test_a_server_that_is_down_is_503(world: World, fetching: str, unused_tcp_port: int) -> None:
    world.endpoint.url = f"http://127.0.0.1:{unused_tcp_port}/token"
    with capture_logs() as lines, pytest.raises(AuthUnavailable):
        await world.credential(fetching).request_parts(world.caller("ann"))
    assert [line["reason"] for line in lines] == ["connection refused"]


async def test_an_endpoint_that_nobody_knows_is_503_and_said_in_the_log(world: World, fetching: str) -> None:
    world.endpoint.url = ""
    with capture_logs() as lines, pytest.raises(AuthUnavailable):
        await world.credential(fetching).request_parts(world.caller("ann"))
    assert [line["reason"] for line in lines] == ["the issuer's metadata have no token_endpoint"]


async def test_a_callers_token_that_is_refused_is_the_callers_to_mend(world: World) -> None:
    world.endpoint.answer = lambda form: (400, {"error": "invalid_grant", "error_description": "revoked"})
    with capture_logs() as lines, pytest.raises(Unauthorized) as caught:
        await world.credential("token_exchange").request_parts(world.caller("ann"))
    assert (caught.value.status, caught.value.error) == (401, "invalid_token")
    assert "revoked" not in caught.value.message
    assert [line for line in lines if line["log_level"] == "error"] == []


WRONG_REQUESTS: Final = ("invalid_target", "invalid_request", "invalid_client", "unauthorized_client", "invalid_scope")


@each("word", [*WRONG_REQUESTS, "never heard of", None, 7])
@each("status", [400, 401])
async def test_a_refusal_of_the_gateway_is_502_and_an_error_in_the_log(
    world: World, fetching: str, word: Any, status: int
) -> None:
    world.endpoint.answer = lambda form: (status, {"error": word})
    with capture_logs() as lines, pytest.raises(BackendUnavailable) as caught:
        await world.credential(fetching).request_parts(world.caller("ann"))
    assert caught.value.status == 502
    (line,) = lines
    assert line["log_level"] == "error"
    assert (str(word) if isinstance(word, str) else f"HTTP {status}") in line["reason"]


async def test_invalid_grant_for_the_gateways_own_token_is_nothing_a_caller_could_mend(world: World) -> None:
    world.endpoint.answer = lambda form: (400, {"error": "invalid_grant"})
    with pytest.raises(BackendUnavailable):
        await world.credential("client_credentials").request_parts(world.caller("ann"))


@each_row_and(
    {
        "no JSON": b"<html>",
        "nothing": b"",
        "something far too large": {"access_token": "a" * 70_000, "token_type": "Bearer"},
    }
)
async def test_an_absurd_answer_gives_no_token(world: World, fetching: str, body: Any) -> None:
    world.endpoint.answer = lambda form: (200, body)
    with capture_logs() as lines, pytest.raises(BackendUnavailable):
        await world.credential(fetching).request_parts(world.caller("ann"))
    assert [line["log_level"] for line in lines] == ["error"]


@pytest.mark.parametrize("kind", ["id_token", "refresh_token", "saml2"])
async def test_an_exchange_that_gives_another_type_of_token_is_502(world: World, kind: str) -> None:
    issued = f"urn:ietf:params:oauth:token-type:{kind}"
    world.endpoint.answer = lambda form: (200, world.endpoint.grant(form, issued_token_type=issued))
    with capture_logs() as lines, pytest.raises(BackendUnavailable):
        await world.credential("token_exchange").request_parts(world.caller("ann"))
    assert [line["log_level"] for line in lines] == ["error"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_the_client_secret_follows_no_redirect(world: World, fetching: str, status: int) -> None:
    world.endpoint.answer = lambda form: (status, {})
    with pytest.raises(BackendUnavailable):
        await world.credential(fetching).request_parts(world.caller("ann"))
    assert len(world.endpoint.forms) == 1


async def test_where_no_token_can_be_had_nothing_else_is_tried(world: World, fetching: str) -> None:
    world.endpoint.answer = lambda form: (400, {"error": "invalid_target"})
    credential = world.credential(fetching)
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await credential.request_parts(world.caller("ann"))
    assert len({json.dumps(form, sort_keys=True) for form in world.endpoint.forms}) == 1
