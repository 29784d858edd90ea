"""``make observe-test`` leaves out no alert, and says so where one does not come as it should."""

from __future__ import annotations

import pytest

from lab.observe.__main__ import Line
from lab.observe.causes import CAUSES
from tests.monitoring import alerts


def test_every_alert_has_a_cause() -> None:
    assert CAUSES.keys() == alerts().keys()
    assert len({words for words, _ in CAUSES.values()}) == len(CAUSES)


def test_an_alert_that_came_once_is_good() -> None:
    line = Line("McpGatewayStoreAway", "Redis is killed", 6.8, 1)
    assert line.good
    assert str(line).endswith("6.8 s  once")


@pytest.mark.parametrize(("times", "why", "said"), [(0, "TimeoutError", "TimeoutError"), (2, "", "came 2 times")])
def test_one_that_did_not_come_or_came_twice_is_missed(times: int, why: str, said: str) -> None:
    line = Line("McpGatewayStoreAway", "Redis is killed", 6.8, times, why=why)
    assert not line.good
    assert str(line).endswith(f"MISSED: {said}")
