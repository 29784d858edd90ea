"""The fault proxy does what it says: an echo behind it, seen byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.clock import Clock, by_hand
from tests.fault.proxy import SOUND, Bandwidth, Blackhole, Fault, FaultProxy, HalfOpen, Latency, Reset, Slicing, Surplus
from tests.fault.scripted import Listener
from tests.waiting import PATIENCE, until

ASKED = b"what is asked"


class Echo(Listener):
    """Gives back what it gets, block by block. ``received`` is all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""
        self.news = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while block := await reader.read(65536):
            async with self.news:
                self.received += block
                self.news.notify_all()
            writer.write(block)
            await writer.drain()

    async def got(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: len(self.received) >= size)
        return self.received


class Asking:
    """A connection to the proxy."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    async def __aenter__(self) -> Asking:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._proxy.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def ask(self, text: bytes = ASKED) -> bytes:
        """What comes back, as many bytes as were sent."""
        self.writer.write(text)
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readexactly(len(text))


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    listener = Echo()
    await listener.open()
    yield listener
    await listener.close()


@pytest.fixture
async def proxy(echo: Echo) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(echo.port) as between:
        yield between


@pytest.mark.parametrize("fault", [SOUND, Latency(0.01), Slicing(1), Bandwidth(100_000)], ids=str)
async def test_a_fault_that_only_delays_changes_no_byte(proxy: FaultProxy, echo: Echo, fault: Fault) -> None:
    text = bytes(range(256)) * 4
    proxy.fault = fault
    async with Asking(proxy) as client:
        assert await client.ask(text) == text
        client.writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await client.reader.read() == b""
    assert echo.received == text


@by_hand
async def test_latency_holds_each_block_back_both_ways(clock: Clock) -> None:
    assert await seconds_behind(clock, Latency(0.2), ASKED) == pytest.approx(0.4, abs=0.06)


@by_hand
async def test_bandwidth_lets_no_more_through_than_it_says(clock: Clock) -> None:
    assert await seconds_behind(clock, Bandwidth(1000), b"x" * 1000) >= 1


async def seconds_behind(clock: Clock, fault: Fault, text: bytes) -> float:
    """Seconds until all of an answer is there."""
    echo = Echo()
    await echo.open()
    async with FaultProxy(echo.port) as proxy, Asking(proxy) as client:
        proxy.fault = fault
        asking, begun = asyncio.create_task(client.ask(text)), clock.now
        await clock.settles()
        while not asking.done():
            assert clock.now < begun + PATIENCE
            await clock.moves_on(0.05)
        assert asking.result() == text
    await echo.close()
    return clock.now - begun


async def test_slices_arrive_one_by_one(proxy: FaultProxy) -> None:
    proxy.fault = Slicing(3)
    async with Asking(proxy) as client:
        client.writer.write(ASKED)
        seen = b""
        async with asyncio.timeout(PATIENCE):
            seen = await client.reader.read(65536)
    assert seen == ASKED[: len(seen)]
    assert len(seen) < len(ASKED)


async def test_a_reset_request_does_not_arrive(proxy: FaultProxy, echo: Echo) -> None:
    proxy.fault = Reset("requests")
    async with Asking(proxy) as client:
        with pytest.raises(ConnectionResetError):
            await client.ask()
    assert echo.received == b""


async def test_a_reset_answer_breaks_off_after_the_request_has_arrived(proxy: FaultProxy, echo: Echo) -> None:
    proxy.fault = Reset("answers", after=4)
    async with Asking(proxy) as client:
        with pytest.raises(ConnectionResetError):
            await client.ask()
    assert echo.received == ASKED


async def test_a_half_open_connection_is_silent_until_something_is_sent_over_it(proxy: FaultProxy, echo: Echo) -> None:
    async with Asking(proxy) as client:
        await client.ask()
        proxy.fault = HalfOpen()
        closed = asyncio.create_task(client.reader.read(1))
        async with Asking(proxy) as other:
            assert await other.ask() == ASKED  # a new connection is sound, once
            with pytest.raises(ConnectionResetError):
                await other.ask()
        assert not closed.done()
        client.writer.write(ASKED)
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(PATIENCE):
                await closed
    assert echo.received == ASKED * 2


@pytest.mark.parametrize(("fault", "arrives"), [(Blackhole(), False), (Blackhole("answers"), True)], ids=str)
async def test_what_a_black_hole_held_arrives_when_it_is_over(
    proxy: FaultProxy, echo: Echo, fault: Fault, arrives: bool
) -> None:
    async with Asking(proxy) as client:
        await client.ask()
        proxy.fault = fault
        asking = asyncio.create_task(client.ask())
        async with Asking(proxy) as other:  # taken, and no more
            other.writer.write(ASKED)
            if arrives:
                await echo.got(3 * len(ASKED))
            assert not asking.done()
            assert echo.received == ASKED * (3 if arrives else 1)
            proxy.fault = SOUND
            assert await asking == ASKED
            async with asyncio.timeout(PATIENCE):
                assert await other.reader.readexactly(len(ASKED)) == ASKED


async def test_surplus_bytes_follow_an_answer(proxy: FaultProxy) -> None:
    proxy.fault = Surplus(b"more")
    async with Asking(proxy) as client:
        assert await client.ask() == ASKED
        async with asyncio.timeout(PATIENCE):
            assert await client.reader.readexactly(4) == b"more"


async def test_a_proxy_that_closes_refuses_and_is_back_on_the_same_port(proxy: FaultProxy) -> None:
    async with Asking(proxy) as client:
        await client.ask()
        await proxy.close()
        async with asyncio.timeout(PATIENCE):
            assert await client.reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
    await proxy.open()
    async with Asking(proxy) as client:
        assert await client.ask() == ASKED


async def test_before_a_service_that_is_gone_connections_are_reset(proxy: FaultProxy, echo: Echo) -> None:
    await echo.close()
    async with Asking(proxy) as client, asyncio.timeout(PATIENCE):
        with pytest.raises(ConnectionResetError):
            await client.reader.read()
    await echo.open()


async def test_no_connection_is_left_when_both_sides_have_ended(proxy: FaultProxy) -> None:
    async with Asking(proxy) as client:
        await client.ask()
        assert len(proxy.links) == 1
        client.writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await client.reader.read() == b""
    await until(lambda: not proxy.links)
