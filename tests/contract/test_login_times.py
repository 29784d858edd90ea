"""How often the gateway logs in, by the clock. What a login sends and finds is in tests/protocol/test_logins.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pytest

from gateway.backend.refusals import DELAYS
from gateway.credentials.login import MAX_VALUE, SETTLED, LoginCredential
from gateway.errors import BackendBusy, BackendUnavailable
from gateway.model import ANONYMOUS
from tests.authorization.token_endpoint import TokenEndpoint
from tests.contract.credentials import World, credentials_world
from tests.each import each
from tests.fault.behaviours import CLOSE, Behaviour, Body, Exchange, error, result


@dataclass(frozen=True)
class NewSessions:
    """Give another session at each login."""

    given: list[str]

    async def play(self, exchange: Exchange) -> None:
        self.given.append(f"session-{len(self.given)}")
        await result(self.given[-1]).play(exchange)


@pytest.fixture
async def world(endpoint: TokenEndpoint) -> AsyncIterator[World]:
    async with credentials_world(endpoint) as world:
        yield world


async def header_of(credential: LoginCredential) -> str:
    return (await credential.request_parts(ANONYMOUS)).headers["Authorization"]


def login_of(world: World) -> LoginCredential:
    credential = world.credential("login")
    assert isinstance(credential, LoginCredential)
    return credential


async def test_a_login_is_renewed_at_once_and_then_for_some_seconds_not_again(world: World) -> None:
    world.backend.on("log.in", NewSessions([]))
    credential = login_of(world)
    first = await credential.request_parts(ANONYMOUS)
    renewed = await credential.renew(ANONYMOUS, first)
    assert renewed is not None
    assert renewed.headers["Authorization"] == "Session session-1"
    assert await credential.renew(ANONYMOUS, first) == renewed, "another call was refused with the first one, too"
    world.now += SETTLED - 0.125  # which a float holds exactly, as it holds the end
    assert await credential.renew(ANONYMOUS, renewed) is None
    assert await header_of(credential) == "Session session-1"
    world.now += 0.125
    again = await credential.renew(ANONYMOUS, renewed)
    assert again is not None
    assert again.headers["Authorization"] == "Session session-2"


async def test_a_refused_login_is_tried_again_after_a_while(world: World) -> None:
    world.backend.on("log.in", error(1, "no"))
    credential = login_of(world)
    for _ in range(3):
        with pytest.raises(BackendUnavailable):
            await credential.request_parts(ANONYMOUS)
    assert world.backend.calls("log.in") == 1
    world.backend.on("log.in", NewSessions([]))
    world.now += DELAYS[0] - 0.125
    with pytest.raises(BackendUnavailable):
        await credential.request_parts(ANONYMOUS)
    world.now += 0.125
    assert await header_of(credential) == "Session session-0"


LATER: Final = [Body(b"later", status=status, content_type="text/plain") for status in (429, 502, 503)]


@each("reply", [*LATER, CLOSE])
async def test_a_service_that_is_busy_or_closes_has_refused_nobody(world: World, reply: Behaviour) -> None:
    world.backend.on("log.in", reply)
    credential = login_of(world)
    with pytest.raises((BackendUnavailable, BackendBusy)):
        await credential.request_parts(ANONYMOUS)
    world.backend.on("log.in", NewSessions([]))
    assert await header_of(credential) == "Session session-0"


async def test_a_value_of_a_login_has_a_bound(world: World) -> None:
    world.backend.on("log.in", result("x" * MAX_VALUE))
    assert await header_of(login_of(world)) == "Session " + "x" * MAX_VALUE
    world.backend.on("log.in", result("x" * (MAX_VALUE + 1)))
    with pytest.raises(BackendUnavailable):
        await login_of(world).request_parts(ANONYMOUS)


@each("status", [429, 503])
async def test_a_login_that_is_told_when_to_come_again_was_not_refused(world: World, status: int) -> None:
    """Whatever its body says: what is refused is not tried again for a quarter of an hour."""
    busy = Body(error(-32000, "Slow down").payload, status, headers=(("Retry-After", "3"),))
    world.backend.on("log.in", busy)
    credential = login_of(world)
    with pytest.raises(BackendBusy, match="did not run the call") as caught:
        await header_of(credential)
    assert caught.value.retry_after == 3
    world.backend.on("log.in", NewSessions([]))
    assert await header_of(credential) == "Session session-0"
