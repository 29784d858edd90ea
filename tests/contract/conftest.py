"""One store of each kind and one client of each kind, for the suites that they share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.http_client.choice import HttpClient
from gateway.store import Store
from tests.contract.http_clients import HTTP_CLIENTS, Make
from tests.contract.stores import KINDS, clock_for, opened
from tests.manual_clock import ManualClock
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, server: RedisServer) -> str:
    server.control.flushall()
    kind: str = request.param
    return kind


@pytest.fixture
def clock(kind: str, server: RedisServer) -> ManualClock:
    return clock_for(kind, server)


@pytest.fixture
async def store(kind: str, clock: ManualClock, server: RedisServer) -> AsyncIterator[Store]:
    async with opened(kind, clock, server) as store:
        yield store


@pytest.fixture
async def other(store: Store, kind: str, clock: ManualClock, server: RedisServer) -> AsyncIterator[Store]:
    """What another replica has of the same store. Of one in memory there is no other."""
    if "redis" not in kind:
        yield store
        return
    async with opened(kind, clock, server) as other:
        yield other


@pytest.fixture(params=HTTP_CLIENTS.values(), ids=HTTP_CLIENTS.keys())
def make(request: pytest.FixtureRequest) -> Make:
    """A class of transports, or what makes one like it; who tests others overrides this."""
    made: Make = request.param
    return made


@pytest.fixture
async def client(make: Make) -> AsyncIterator[HttpClient]:
    made = make()
    yield made
    await made.close()
