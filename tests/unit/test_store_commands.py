"""Commands to Redis that fail after nobody waits for them any more."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from gateway.store.redis_link import _within


async def _fails_when_it_is_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("closed meanwhile") from None


async def test_a_command_that_fails_as_it_is_given_up_is_no_failure_of_the_program() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    with pytest.raises(TimeoutError):
        await _within(0.01, _fails_when_it_is_cancelled())
    waiting = asyncio.create_task(_within(10, _fails_when_it_is_cancelled()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    del waiting
    gc.collect()
    assert told == []
