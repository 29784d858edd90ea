"""Crowds of clients that send little or nothing (security.md H10, H26): the others are served, and the service hears of
none of the crowd."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack, suppress
from typing import Final

from gateway.http_server.connection import Connection
from gateway.http_server.request import HttpRequest
from gateway.http_server.request_reader import RequestReader
from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.protocol.talk import exchange, status_of
from tests.protocol.test_half_closed import check_sum, posted, written
from tests.waiting import PATIENCE, until

CROWD: Final = 200
HEAD: Final = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"
LIVE: Final = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


async def opened(stack: AsyncExitStack, port: int, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    stack.push_async_callback(hang_up, writer)
    return reader, writer


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def check_others_are_served(gateway: Server, backend: ScriptedBackend) -> None:
    calls = len(backend.requests)
    check_sum(await exchange(gateway.port, written("invoke")))
    assert (await exchange(gateway.admin_port, LIVE)).endswith(b"alive\n")
    assert [asked.method for asked in backend.requests[calls:]] == ["add"]


@by_hand
async def test_two_hundred_half_sent_heads_are_let_go_and_hold_up_nobody(clock: Clock) -> None:
    """H10: each is 408 within ten seconds, however many there are and whatever they still add."""
    async with ScriptedBackend() as backend, front(backend.url) as running, AsyncExitStack() as stack:
        gateway = running.gateway
        assert gateway is not None
        backend.requests.clear()
        crowd = [await opened(stack, gateway.port, f"127.0.1.{number % 4 + 1}") for number in range(CROWD)]
        for _, writer in crowd:
            writer.write(HEAD)
        for _ in range(9):
            await clock.moves_on(1)
            for _, writer in crowd:
                writer.write(b"a")
            await check_others_are_served(gateway, backend)
        await clock.moves_on(1.5)
        async with asyncio.timeout(PATIENCE):
            said = [await reader.read() for reader, _ in crowd]
        assert {status_of(raw) for raw in said} == {408}
        await check_others_are_served(gateway, backend)
        assert {asked.method for asked in backend.requests} == {"add"}


@by_hand
async def test_whose_request_has_come_is_answered_however_long_the_gateway_takes_to_read_it(clock: Clock) -> None:
    """H10: of thousands that send at once, few are read in a turn; the ten seconds are for what the client does."""
    async with ScriptedBackend() as backend, front(backend.url) as running, AsyncExitStack() as stack:
        gateway = running.gateway
        assert gateway is not None
        crowd = [await opened(stack, gateway.port, f"127.0.1.{number % 4 + 1}") for number in range(CROWD)]
        for _, writer in crowd:
            writer.write(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for _ in range(20):
            clock.now += 4
            await asyncio.sleep(0)
        await clock.settles()
        async with asyncio.timeout(PATIENCE):
            said = [await reader.readuntil(b"}}") for reader, _ in crowd]
        assert {status_of(raw) for raw in said} == {404}


async def test_beyond_max_connections_newcomers_get_503_and_those_who_are_there_are_served() -> None:
    """H26: the admin port does not count among them, and room that comes free is given out again. Who waits for an
    answer is not idle."""
    async with (
        ScriptedBackend() as backend,
        front(backend.url, "server.max_connections=40") as running,
        AsyncExitStack() as stack,
    ):
        gateway = running.gateway
        assert gateway is not None
        backend.on("add", Hang("nothing"))
        crowd = await filled(stack, gateway.port)
        call = written("invoke")
        for _, writer in crowd:
            writer.write(call)
        await until(lambda: sum(not one.is_waiting for one in connections(gateway)) == 40)
        reader, writer = crowd[0]
        for _ in range(2):
            newcomer, its = await opened(stack, gateway.port, "127.0.2.1")
            async with asyncio.timeout(PATIENCE):
                its.write(written("invoke"))
                assert status_of(await newcomer.read()) == 503
                assert (await exchange(gateway.admin_port, LIVE)).endswith(b"alive\n")
        backend.release.set()
        async with asyncio.timeout(PATIENCE):
            assert b'"sum":5' in await reader.readuntil(b"}}")
            newcomer, its = await opened(stack, gateway.port, "127.0.2.1")
            its.write(call)
            assert b'"sum":5' in await newcomer.readuntil(b"}}")
            assert await reader.read() in (b"", b"}"), "it was idle, and made room"


@each("half", ["head", "body"])
async def test_idle_connections_and_halves_of_the_largest_holder_make_room_for_newcomers(half: str) -> None:
    """H26: each of ten newcomers is served, at the cost of the two addresses that came first."""
    async with (
        ScriptedBackend() as backend,
        front(backend.url, "server.max_connections=40") as running,
        AsyncExitStack() as stack,
    ):
        gateway = running.gateway
        assert gateway is not None
        crowd = await filled(stack, gateway.port)
        for _, writer in crowd[::2]:
            writer.write(HEAD if half == "head" else written("invoke")[:-5])
        newcomers = []
        for number in range(10):
            reader, writer = await opened(stack, gateway.port, f"127.0.2.{number + 1}")
            newcomers.append(reader)
            async with asyncio.timeout(PATIENCE):
                writer.write(written("invoke"))
                assert b'"sum":5' in await reader.readuntil(b"}}")
        async with asyncio.timeout(PATIENCE):
            await until(lambda: len(connections(gateway)) == 40)
            await until(lambda: sum(reader.at_eof() or reader.exception() is not None for reader, _ in crowd) == 10)
        assert not any(reader.at_eof() for reader, _ in crowd[20:]), "nobody else has more than a sixteenth"
        assert not any(reader.at_eof() for reader in newcomers)


async def filled(stack: AsyncExitStack, port: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """All 40 connections: two addresses with a quarter each, and ten with a sixteenth. Further ones are refused."""
    crowd = [await opened(stack, port, f"127.0.1.{number // 10 + 1}") for number in range(20)]
    crowd += [await opened(stack, port, f"127.0.1.{number // 2 + 3}") for number in range(20)]
    for number in range(12):
        refused, _ = await opened(stack, port, f"127.0.1.{number + 1}")
        async with asyncio.timeout(PATIENCE):
            assert (await refused.read()).endswith(b'"Too many connections from this address"}}')
    return crowd


def connections(gateway: Server) -> list[Connection]:
    """Those of clients that are open, of both ports."""
    return [one for port in gateway._ports for one in port.serving.connections]


async def test_connections_that_are_over_are_freed_without_the_garbage_collector(gateway: Server) -> None:
    """It looks at old objects so rarely that a crowd would fill the memory for minutes."""

    def held() -> int:
        return sum(type(one) in (Connection, HttpRequest, RequestReader) for one in gc.get_objects())

    gc.collect()
    before = held()
    gc.disable()
    try:
        for sent in (written("invoke"), HEAD, b"", b"canary\r\n\r\n", b"POST /mcp HTTP/1.1\r\nHost: a\r\n"):
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(sent)
            # Whatever Python holds is gone through once there is a reason to: that takes its time.
            await until(lambda: connections(gateway))
            assert held() > before
            await hang_up(writer)
            await until(lambda: not connections(gateway))
            await until(lambda: held() == before)
    finally:
        gc.enable()


async def test_all_of_a_crowd_that_sends_bodies_at_one_moment_are_answered() -> None:
    """More than is read in one turn of the event loop, and each more than is read at a time."""
    async with ScriptedBackend() as backend, front(backend.url) as running, AsyncExitStack() as stack:
        assert running.gateway is not None
        crowd = [await opened(stack, running.gateway.port, f"127.0.1.{number + 1}") for number in range(CROWD)]
        sent = posted("/mcp/tools/invoke", {"name": "add", "arguments": {"a": 2, "b": 3}, "more": "x" * 20_000}, {})
        for _, writer in crowd:
            writer.write(sent)
        async with asyncio.timeout(PATIENCE):
            heads = await asyncio.gather(*(reader.readuntil(b"\r\n\r\n") for reader, _ in crowd))
        assert [status_of(head) for head in heads] == [200] * CROWD
