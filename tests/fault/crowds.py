"""Rows of ``make fault``: one tool hangs, one caller floods, and the others call on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.authorization.stand import CALLS
from tests.fault.behaviours import Hang
from tests.fault.ledger import Noted, Work
from tests.fault.load import Callers
from tests.fault.rounds import measured
from tests.fault.stage import Stage, stage
from tests.fault.table import Line, Row

_FLOOD: Final = 300
"""Calls that one caller makes at a time, each of which takes the service a second."""
_PAUSE: Final = 1.0
"""Seconds between two calls of one of them that was refused."""


async def hanging_tool() -> Line:
    async with stage() as it:
        return await measured(it.ledger, lambda: hanging(it), await it.healthy(), await callers_of(it))


async def flooding_caller() -> Line:
    async with stage() as it:
        flooder = await it.callers(4, 1, rate=1, wait=1.0)
        return await measured(it.ledger, lambda: flooding(flooder), await it.healthy(), None)


async def hanging_tool_and_flooding_caller() -> Line:
    async with stage() as it:
        flooder = await it.callers(4, 1, rate=1, wait=1.0)

        @asynccontextmanager
        async def both() -> AsyncIterator[None]:
            async with hanging(it), flooding(flooder):
                yield

        return await measured(it.ledger, both, await it.healthy(), await callers_of(it))


async def callers_of(it: Stage) -> Callers:
    """Who call the tool that hangs: as many at a time as there are connections, and more."""
    return await it.callers(3, 10, rate=70, tool="hang")


@asynccontextmanager
async def hanging(it: Stage) -> AsyncIterator[None]:
    it.near.on("hang", Noted(it.ledger, Hang("nothing")))
    try:
        yield
    finally:
        it.near.on("hang", Work(it.ledger))


@asynccontextmanager
async def flooding(flooder: Callers) -> AsyncIterator[None]:
    """Many calls of one caller at a time, who asks again as soon as one is answered."""

    async def again_and_again(surface: str) -> None:
        while True:
            if (await flooder.call(flooder.clients[0], surface)).told != "right":
                await asyncio.sleep(_PAUSE)

    calls = [asyncio.create_task(again_and_again(CALLS[number % len(CALLS)])) for number in range(_FLOOD)]
    try:
        yield
    finally:
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


ROWS: Final[dict[str, Row]] = {
    "one tool hangs": hanging_tool,
    "one caller floods": flooding_caller,
    "one tool hangs and one caller floods": hanging_tool_and_flooding_caller,
}
