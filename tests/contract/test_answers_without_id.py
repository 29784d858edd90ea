"""An answer without an id, on a connection that callers share, belongs to nobody while two calls can be meant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import ClientSession

from tests.contract.late_answers import CALLS, LATE, Seen, Teller, owing
from tests.contract.transports import SOCKETS, SocketStand
from tests.front import front


async def _seen(make: Callable[[], SocketStand], late: Callable[[str], bytes], *, times_out: bool) -> Seen:
    stand = owing(make, late)
    knobs = ("catalog.tools={note: {timeout: 200ms}}",) if times_out else ()
    await stand.open()
    try:
        async with front(stand.url, *knobs) as gateway, ClientSession() as session:
            assert gateway.gateway is not None
            queue = gateway.gateway.services[""].learned.gate.queue

            async def slots() -> float:
                return queue.in_use

            return await Teller(session, gateway.base, stand, slots).balances(times_out=times_out)
    finally:
        await stand.close()


@pytest.mark.parametrize("times_out", [False, True], ids=["cancelled", "timed out"])
@pytest.mark.parametrize("make", SOCKETS.values(), ids=list(SOCKETS))
async def test_late_answers_to_calls_that_were_given_up_reach_no_other_caller(
    make: Callable[[], SocketStand], times_out: bool
) -> None:
    seen = await asyncio.gather(*(_seen(make, late, times_out=times_out) for late in LATE.values()))
    assert dict(zip(LATE, seen, strict=True)) == dict.fromkeys(LATE, Seen(CALLS, CALLS, 0))
