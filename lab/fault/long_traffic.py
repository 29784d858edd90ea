"""Ten minutes of calls to one, two, four and eight replicas, at all loads.

The clock is virtual, Redis and the scripts are real. Refusals cost a command each, so twice the limit takes its time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.traffic import traffic
from tests.redis_server import RedisServer

MINUTES = 10


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(
    ("per_minute", "burst", "group"),
    [
        *((600, 60, group) for group in (1, 2, 30)),
        *((60, 10, group) for group in (1, 2, 5)),
        *((60, 60, group) for group in (1, 2, 30)),
        *((6000, 600, group) for group in (2, 300)),
    ],
)
async def test_calls_within_the_limit_are_served(
    server: RedisServer, replicas: int, load: float, per_minute: int, burst: int, group: int
) -> None:
    """600 a minute is the default; 60 a minute has a burst of ten as calls, and of sixty as listings."""
    seen = await traffic(
        server, replicas=replicas, rate=per_minute / 60, burst=burst, load=load, group=group, minutes=MINUTES
    )
    assert seen.refused == 0
    assert per_minute < 600 or seen.commands <= seen.calls / 3


@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
@pytest.mark.parametrize("group", [1, 2])
async def test_of_twice_the_limit_half_is_served(server: RedisServer, replicas: int, group: int) -> None:
    seen = await traffic(server, replicas=replicas, rate=10, burst=60, load=2, group=group, minutes=MINUTES)
    served = seen.calls - seen.refused
    assert 10 * MINUTES * 60 <= served <= 10 * MINUTES * 60 + 60 + replicas * 6
