"""Clients that stop reading for a while, and bodies that nobody takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from gateway.errors import GatewayError
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import TEXT, Response, StreamedResponse
from gateway.web.exchange import raw_refusal
from tests.clock import Clock, by_hand
from tests.fault.behaviours import result
from tests.protocol.bounds import listen
from tests.protocol.talk import status_of
from tests.protocol.test_slow_clients import CALL, MIB, Slow, asked, by_hand_front, client, holding

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n%b\r\n"
PARTS = 3


class Streaming:
    """Answers /stream with parts that each fill the kernel's buffers, and /body with its length once it may."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.may_read = asyncio.Event()

    async def __call__(self, request: HttpRequest) -> Response | StreamedResponse:
        self.seen.append(request.path)
        if request.path == "/stream":
            return StreamedResponse(self._parts(), TEXT, {})
        await self.may_read.wait()
        length = 0
        while part := await request.read():
            length += len(part)
        return Response(b"%d" % length)

    async def _parts(self) -> AsyncGenerator[bytes, None]:
        for _ in range(PARTS):
            yield b"x" * 4 * MIB
            self.seen.append("part")

    raw_refusal = staticmethod(raw_refusal)

    def refusal(self, _: HttpRequest, error: GatewayError) -> Response:
        return Response(error.message.encode(), error.status, TEXT)


@asynccontextmanager
async def talking() -> AsyncIterator[tuple[Streaming, Slow]]:
    handler = Streaming()
    port = await listen(handler)
    try:
        async with client(port.number) as slow:
            yield handler, slow
    finally:
        await port.close()


@by_hand
async def test_what_was_sent_ahead_of_a_stream_waits_for_its_end_also_where_its_client_paused(clock: Clock) -> None:
    async with talking() as (handler, slow):
        handler.may_read.set()
        slow.stop_reading()
        slow.write(GET % (b"stream", b"") + GET % (b"next", b"Connection: close\r\n"))
        await clock.until(lambda: handler.seen)
        await clock.settles()
        assert handler.seen == ["/stream"], "the kernel does not take the first part"
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        stream, _, following = (await slow.rest()).partition(b"\r\n0\r\n\r\n")
        assert len(stream) > PARTS * 4 * MIB
        assert stream.count(b"HTTP/1.1 200 ") == following.count(b"HTTP/1.1 200 ") == 1
        assert handler.seen == ["/stream", *["part"] * PARTS, "/next"]


@by_hand
async def test_a_client_waits_with_a_body_that_nobody_takes_and_goes_on_once_somebody_does(clock: Clock) -> None:
    size = 32 * MIB
    async with talking() as (handler, slow):
        slow.write(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
        await clock.until(lambda: handler.seen)
        for _ in range(10):
            await clock.settles()
        assert slow.writer.transport.get_write_buffer_size() > size / 2, "the kernel holds some, the gateway little"
        handler.may_read.set()
        assert (await slow.answer()).endswith(b"\r\n\r\n%d" % size)


@by_hand
async def test_what_a_caller_has_taken_counts_no_more_however_much_others_hold(clock: Clock) -> None:
    async with by_hand_front("server.max_buffered=8MiB") as (gateway, backend):
        async with client(gateway.port, "127.0.0.2") as quick, client(gateway.port, "127.0.0.3") as slow:
            await holding(clock, gateway, quick, backend, 4 * MIB)
            quick.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await quick.answer()) > 4 * MIB
            await clock.until(lambda: not gateway.held.bytes)
            assert gateway.held.by_owner.total() == 0
            await holding(clock, gateway, slow, backend, 4 * MIB)
            backend.on("echo", result(1))
            assert status_of(await asked(gateway, CALL, "127.0.0.2")) == 200
            assert status_of(await asked(gateway, CALL, "127.0.0.3")) == 503
        await clock.until(lambda: not gateway.held.bytes)
        assert gateway.held.by_owner.total() == 0
