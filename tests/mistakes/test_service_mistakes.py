"""A mistake with the service is told with its remedy."""

from __future__ import annotations

import asyncio

import pytest

from tests.each import each
from tests.mistakes import service
from tests.mistakes.mistake import Mistake, Told

MISTAKES = [row.mistake for row in service.ROWS]


@pytest.fixture(scope="module")
def told() -> dict[str, Told]:
    return asyncio.run(service.tell())


@each("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_with_the_service_is_told(told: dict[str, Told], mistake: Mistake) -> None:
    mistake.judge(told[mistake.name])


def test_there_are_at_least_20_and_each_has_a_name_of_its_own() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 20
