"""Clients that are slow with the bodies of their requests: what is held of them is counted, and one has a quarter."""

from __future__ import annotations

from tests.clock import Clock, by_hand
from tests.protocol.talk import status_of
from tests.protocol.test_slow_clients import CALL, asked, by_hand_front, client

HEAD = (
    b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 900000\r\n\r\n"
)


@by_hand
async def test_who_sends_bodies_slowly_holds_a_quarter_of_all_and_others_are_served(clock: Clock) -> None:
    async with by_hand_front("server.max_buffered=1MiB", "backend.max_response=1MiB") as (gateway, _):
        async with client(gateway.port, "127.0.0.2") as first, client(gateway.port, "127.0.0.2") as second:
            first.write(HEAD + b" " * 200_000)
            await clock.until(lambda: gateway.held.bytes == 200_000)
            assert status_of(await asked(gateway, CALL, "127.0.0.2")) == 200
            second.write(HEAD + b" " * 100_000)
            raw = await second.answer()
            assert status_of(raw) == 503
            assert raw.endswith(b'read or send faster; the call was not sent, so it is safe to repeat"}}')
            assert status_of(await asked(gateway, CALL, "127.0.0.3")) == 200
            assert gateway.held.bytes == 200_000
        await clock.until(lambda: not gateway.held.bytes)
