"""Counting what is under way with a service that may be replaced."""

from __future__ import annotations

import asyncio

import pytest

from gateway.concurrency.background import UseCounter
from tests.waiting import PATIENCE


async def turns() -> None:
    """Let every task that can go on do so."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_nothing_under_way_has_ended_already() -> None:
    async with asyncio.timeout(PATIENCE):
        await UseCounter().wait_until_idle()


async def test_it_ends_with_the_last_of_several() -> None:
    uses = UseCounter()
    first, second = asyncio.Event(), asyncio.Event()

    async def use(until: asyncio.Event) -> None:
        with uses:
            await until.wait()

    tasks = [asyncio.create_task(use(until)) for until in (first, second)]
    await turns()
    ended = asyncio.create_task(uses.wait_until_idle())
    first.set()
    await turns()
    assert not ended.done()
    assert repr(uses) == "<Uses 1>"
    second.set()
    async with asyncio.timeout(PATIENCE):
        await ended
    await asyncio.gather(*tasks)


async def test_what_fails_or_is_cancelled_is_no_longer_under_way() -> None:
    uses = UseCounter()
    with pytest.raises(ZeroDivisionError), uses:
        raise ZeroDivisionError
    with pytest.raises(asyncio.CancelledError), uses:
        raise asyncio.CancelledError
    async with asyncio.timeout(PATIENCE):
        await uses.wait_until_idle()


async def test_it_can_be_used_again_after_it_ended() -> None:
    uses = UseCounter()
    with uses:
        pass
    with uses:
        ended = asyncio.create_task(uses.wait_until_idle())
        await turns()
        assert not ended.done()
    async with asyncio.timeout(PATIENCE):
        await ended
