"""More callers with views of their own than there is room for."""

from __future__ import annotations

from gateway.discovery.views import Views
from gateway.model import SHARED, View

ROOM = 200


def of(number: int) -> View:
    return View("https://login.example.com", f"user-{number}")


def test_callers_a_few_more_than_fit_do_not_evict_each_other_in_turn() -> None:
    """Forgetting the view that was used longest ago would forget each one just before it is used."""
    views, made, asked = Views(ROOM), 0, 0
    for _ in range(50):
        for number in range(ROOM + ROOM // 10):
            made += of(number) not in views
            asked += 1
            assert views[of(number)].view == of(number)
    assert len(views) == ROOM
    assert made < 0.35 * asked, "about 18 of 100 are expected; each costs a listing"


def test_the_shared_view_stays_whatever_callers_come() -> None:
    views = Views(ROOM)
    views[SHARED].failure_reason = "remembered"
    for number in range(20 * ROOM):
        assert views[of(number)].view == of(number)
    assert views[SHARED].failure_reason == "remembered"
    assert len(views) == ROOM
