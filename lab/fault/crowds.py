"""Rows of ``make fault``: one tool hangs, one caller floods, and the others call on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lab.fault.flood import UNDER_WAY
from lab.fault.rounds import measured
from lab.fault.stage import Stage, stage
from lab.fault.table import Line, Row
from tests.fault.behaviours import Hang
from tests.fault.ledger import Noted, Work
from tests.fault.load import Callers
from tests.program import Program


async def hanging_tool() -> Line:
    async with stage() as it:
        return await measured(it.ledger, lambda: hanging(it), await it.healthy(), await callers_of(it))


async def flooding_caller() -> Line:
    async with stage() as it:
        return await measured(it.ledger, lambda: flooding(it), await it.healthy(), None)


async def hanging_tool_and_flooding_caller() -> Line:
    async with stage() as it:

        @asynccontextmanager
        async def both() -> AsyncIterator[None]:
            async with hanging(it), flooding(it):
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
async def flooding(it: Stage) -> AsyncIterator[None]:
    """One caller with hundreds of calls at a time, who asks again when one is refused."""
    async with Program(str(it.port), module="lab.fault.flood") as flood:
        await flood.said(UNDER_WAY)
        yield


ROWS: Final[dict[str, Row]] = {
    "one tool hangs": hanging_tool,
    "one caller floods": flooding_caller,
    "one tool hangs and one caller floods": hanging_tool_and_flooding_caller,
}
