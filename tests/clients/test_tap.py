"""The tap closes what it opened."""

from __future__ import annotations

import asyncio

from tests.clients.tap import tapped
from tests.fault.scripted import Listener
from tests.waiting import PATIENCE, until

MUCH = 64 * 1024**2
"""Bytes: more than the buffers of the system take between two connections."""


class Deaf(Listener):
    """Accepts connections, and reads nothing."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()


async def test_a_tap_closes_also_where_its_target_does_not_read() -> None:
    deaf = Deaf()
    await deaf.open()
    seen = [-1] * 20
    async with asyncio.timeout(PATIENCE):
        async with tapped(deaf.port) as tap:
            _, writer = await asyncio.open_connection("127.0.0.1", tap.port)
            writer.write(bytes(MUCH))

            def is_stuck() -> bool:
                """Whether the tap has passed something on, and nothing more for a while."""
                seen.append(sum(map(len, tap.asked)))
                return seen[-1] == seen[-20] > 0

            await until(is_stuck)
            assert seen[-1] < MUCH
            writer.transport.abort()
        await deaf.close()
