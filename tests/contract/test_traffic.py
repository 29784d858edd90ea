"""Minutes of calls to several replicas: who is within the limit is not refused. All loads: lab.fault.long_traffic."""

from __future__ import annotations

import pytest

from tests.contract.traffic import traffic
from tests.redis_server import RedisServer


@pytest.mark.parametrize("replicas", [2, 8])
@pytest.mark.parametrize(("load", "group"), [(0.36, 2), (0.95, 1), (0.95, 2), (0.95, 30)])
async def test_ten_minutes_of_calls_within_the_limit_are_all_served(
    server: RedisServer, replicas: int, load: float, group: int
) -> None:
    seen = await traffic(server, replicas=replicas, rate=10, burst=60, load=load, group=group, minutes=10)
    assert seen.refused == 0
    assert load < 0.5 or seen.commands <= seen.calls / 3


async def test_of_twice_the_limit_half_is_served(server: RedisServer) -> None:
    seen = await traffic(server, replicas=4, rate=10, burst=60, load=2, group=2, minutes=1)
    assert 600 <= seen.calls - seen.refused <= 600 + 60 + 4 * 6
