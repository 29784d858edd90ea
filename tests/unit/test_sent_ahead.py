"""What clients send ahead: how many connections are read in one turn of the event loop."""

from __future__ import annotations

import asyncio

from gateway.http_server.handler import TURNS, SentAhead
from gateway.http_server.held_bytes import HeldBytes


async def test_so_many_connections_have_a_turn_however_long_each_of_them_takes() -> None:
    ahead, loop = SentAhead(HeldBytes(2**20)), asyncio.get_running_loop()

    def has_turn() -> bool:
        begun = loop.time()
        while loop.time() == begun:
            """Time goes on within a turn."""
        return ahead.has_turn()

    assert sum(has_turn() for _ in range(TURNS + 10)) == TURNS
    await asyncio.sleep(0)
    assert ahead.has_turn(), "it is the next turn"
