"""A mistake with OAuth is told with its remedy."""

from __future__ import annotations

import asyncio

import pytest

from tests.each import each
from tests.mistakes import oauth
from tests.mistakes.mistake import Mistake, Told


@pytest.fixture(scope="module")
def told() -> dict[str, Told]:
    return asyncio.run(oauth.tell_all())


@each("mistake", oauth.ROWS, ids=lambda mistake: mistake.name)
def test_a_mistake_with_oauth_is_told(told: dict[str, Told], mistake: Mistake) -> None:
    mistake.judge(told[mistake.name])


def test_there_are_at_least_25_and_each_has_a_name_of_its_own() -> None:
    assert len({row.name for row in oauth.ROWS}) == len(oauth.ROWS) >= 25
