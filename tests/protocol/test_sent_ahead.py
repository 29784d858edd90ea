"""What clients send ahead of answers, and heads that are not complete: what is kept of it, and who is ended."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.clock import Clock, by_hand
from tests.fault.behaviours import Hang
from tests.protocol.talk import status_of
from tests.protocol.test_slow_clients import CALL, PING, by_hand_front, client


@by_hand
async def test_of_what_is_sent_far_ahead_16_kib_are_kept_and_the_rest_waits_in_the_kernel(clock: Clock) -> None:
    padding = b"".join(b"\r\nX-%d: " % n + b"x" * 8000 for n in range(7))
    padded = PING.replace(b"\r\n\r\n", padding + b"\r\n\r\n")
    async with by_hand_front() as (gateway, backend), client(gateway.port) as slow:
        backend.on("echo", Hang("nothing"))
        slow.write(CALL)
        await clock.until(lambda: backend.calls("echo") == 1)
        call = gateway.held.bytes
        for _ in range(12):
            slow.write(padded)
            await clock.settles()
        await clock.until(lambda: gateway.held.bytes == call + 16 * 1024)
        backend.release.set()
        for _ in range(13):
            assert status_of(await slow.answer()) == 200
        await clock.until(lambda: gateway.held.bytes == 0)


@by_hand
async def test_who_sent_most_of_too_many_half_heads_is_told_and_ended(clock: Clock) -> None:
    """What all of them send ahead has an eighth of the bound: 128 KiB here."""
    async with (
        by_hand_front("server.max_buffered=1MiB", "backend.max_response=1MiB") as (gateway, _),
        client(gateway.port) as modest,
        client(gateway.port) as greedy,
        client(gateway.port) as other,
    ):
        with capture_logs() as lines:
            for slow, size in ((modest, 9_000), (greedy, 60_000), (other, 50_000)):
                slow.write(PING.partition(b"\r\n\r\n")[0] + b"\r\nX: " + b"x" * size)
            await clock.until(lambda: gateway.held.bytes > 110_000)
            modest.write(b"x" * 20_000)
            assert status_of(await greedy.answer()) == 503
            await clock.until(lambda: gateway.held.bytes < 112 * 1024)
        assert [line["ended"] for line in lines if line["event"] == "connections that send ahead are ended"] == [1]
        assert not modest.reader.at_eof()
        assert not other.reader.at_eof()
