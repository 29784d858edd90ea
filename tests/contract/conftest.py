"""One store of each kind, for the suite that they share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.store import Store
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
