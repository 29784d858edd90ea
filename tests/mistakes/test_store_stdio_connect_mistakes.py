"""A mistake with the store, with ``stdio`` or with a client's entry is told with its remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.each import each
from tests.mistakes import store_stdio_connect
from tests.mistakes.mistake import Mistake, Told
from tests.mistakes.store_stdio_connect import Typed


@pytest.fixture(scope="module")
def told() -> dict[str, Told]:
    return asyncio.run(store_stdio_connect.tell())


def mistakes(rows: Sequence[Typed]) -> list[Mistake]:
    return [row.mistake for row in rows]


@each("mistake", mistakes(store_stdio_connect.STORE), ids=lambda mistake: mistake.name)
def test_a_mistake_with_the_store_is_told(told: dict[str, Told], mistake: Mistake) -> None:
    mistake.judge(told[mistake.name])


@each("mistake", mistakes(store_stdio_connect.STDIO), ids=lambda mistake: mistake.name)
def test_a_mistake_with_stdio_is_told(told: dict[str, Told], mistake: Mistake) -> None:
    mistake.judge(told[mistake.name])


@each("mistake", mistakes(store_stdio_connect.CONNECT), ids=lambda mistake: mistake.name)
def test_a_mistake_with_connect_is_told(told: dict[str, Told], mistake: Mistake) -> None:
    mistake.judge(told[mistake.name])


def test_there_are_at_least_20_and_each_has_a_name_of_its_own() -> None:
    rows = mistakes(store_stdio_connect.ROWS)
    assert len({mistake.name for mistake in rows}) == len(rows) >= 20
