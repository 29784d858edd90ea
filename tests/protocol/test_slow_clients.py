"""Clients that are slow: with the head of a request, and with taking their answer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from structlog.testing import capture_logs

from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.protocol.talk import LEGACY, legacy_headers, modern_headers, modern_request, request, status_of
from tests.protocol.test_half_closed import posted
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE

PING = posted("/mcp", request("ping"), legacy_headers(LEGACY[0]))
ECHO: dict[str, Any] = {"name": "echo", "arguments": {"value": 1}}
CALL = posted("/mcp/tools/invoke", ECHO, {})
STREAMED = posted(
    "/mcp",
    modern_request("tools/call", ECHO | {"_meta": {"progressToken": "p"}}),
    modern_headers("tools/call", "echo"),
)
LISTEN = posted(
    "/mcp",
    modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    modern_headers("subscriptions/listen"),
)
MIB = 2**20
KERNELS = MIB
"""More than the kernel takes of an answer whose client does not read: what is sent, and what may wait there unsent."""


class Slow:
    """A client at an address of this machine that reads only when it is told to, and offers the kernel little room."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, sent: bytes) -> None:
        self.writer.write(sent)

    def stop_reading(self) -> None:
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def answer(self) -> bytes:
        """The next answer, which has a length."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:] if line)
            return head + await self.reader.readexactly(int(fields[b"content-length"]))

    async def rest(self) -> bytes:
        """What comes until the connection ends."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()


@asynccontextmanager
async def client(port: int, address: str = "127.0.0.1") -> AsyncIterator[Slow]:
    bare = socket.socket()
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    bare.setblocking(False)
    bare.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(bare, ("127.0.0.1", port))
    slow = Slow(*await asyncio.open_connection(sock=bare))
    try:
        yield slow
    finally:
        slow.writer.transport.abort()


@asynccontextmanager
async def by_hand_front(*knobs: str) -> AsyncIterator[tuple[Server, ScriptedBackend]]:
    async with ScriptedBackend() as backend, front(backend.url, *knobs) as gateway:
        assert gateway.gateway is not None
        yield gateway.gateway, backend


@by_hand
async def test_a_head_that_is_half_sent_is_408_after_ten_seconds_on_both_ports(clock: Clock) -> None:
    async with by_hand_front() as (gateway, _):
        for port in (gateway.port, gateway.admin_port):
            async with client(port) as slow:
                slow.write(PING[:50])
                await clock.moves_on(9.8)
                assert not slow.reader.at_eof()
                await clock.moves_on(0.4)
                raw = await slow.rest()
                assert status_of(raw) == 408
                assert raw.endswith(b'"The head of the request did not arrive within 10 s"}}')
                assert b"\r\nConnection: close\r\n" in raw


@by_hand
async def test_a_head_that_comes_byte_by_byte_gets_no_more_time(clock: Clock) -> None:
    async with by_hand_front() as (gateway, _), client(gateway.port) as slow:
        for byte in PING[:9]:
            slow.write(bytes([byte]))
            await clock.moves_on(1.05)
        await clock.moves_on(1)
        assert status_of(await slow.rest()) == 408


@by_hand
async def test_who_connects_and_sends_nothing_is_let_go_without_a_word(clock: Clock) -> None:
    """Browsers open connections ahead of time; an answer that they did not ask for would confuse them."""
    async with by_hand_front() as (gateway, _), client(gateway.port) as slow:
        await clock.moves_on(10.2)
        assert await slow.rest() == b""


@by_hand
async def test_a_connection_may_be_idle_between_requests_and_its_next_head_has_ten_seconds(clock: Clock) -> None:
    async with by_hand_front() as (gateway, _), client(gateway.port) as slow:
        for _ in range(2):
            slow.write(PING)
            await clock.settles()
            assert status_of(await slow.answer()) == 200
            await clock.moves_on(12)
        slow.write(PING[:50])
        await clock.moves_on(9.8)
        assert not slow.reader.at_eof()
        await clock.moves_on(0.4)
        assert status_of(await slow.rest()) == 408


@by_hand
async def test_a_head_that_begins_during_a_call_has_ten_seconds_after_its_answer(clock: Clock) -> None:
    async with by_hand_front() as (gateway, backend), client(gateway.port) as slow:
        watched = Watched()
        backend.on("echo", watched)
        slow.write(CALL)
        await watched.begun()
        slow.write(PING[:50])
        await clock.moves_on(15)
        watched.release()
        await clock.settles()
        assert status_of(await slow.answer()) == 200
        await clock.moves_on(10.2)
        assert status_of(await slow.rest()) == 408


@by_hand
async def test_requests_that_follow_each_other_for_long_are_all_answered(clock: Clock) -> None:
    """The time for a head begins anew with each."""
    async with by_hand_front() as (gateway, _), client(gateway.port) as slow:
        for _ in range(5):
            slow.write(PING)
            await clock.moves_on(4.9)
            assert status_of(await slow.answer()) == 200


@each("sent", {"answer": CALL, "stream": STREAMED})
def test_who_does_not_take_its_answer_is_cut_off_after_the_write_timeout(sent: bytes) -> None:
    size = 4 * MIB

    @by_hand
    async def cut(clock: Clock) -> None:
        async with by_hand_front("server.write_timeout=30s") as (gateway, backend), client(gateway.port) as slow:
            backend.on("echo", result({"echo": "x" * size}))
            slow.stop_reading()
            slow.write(sent)
            await backend.called("echo")
            await clock.until(lambda: gateway.held.bytes > size - KERNELS)
            assert gateway.held.bytes <= 3 * size + KERNELS, "with what a stream is made of"
            await clock.moves_on(29.5)
            assert gateway.held.bytes > 0
            with capture_logs() as lines:
                await clock.moves_on(1)
            assert gateway.held.bytes == 0
            (line,) = (line for line in lines if line["event"] == "connection cut")
            assert line["reason"] == "the client did not read its response"
            assert line["bytes"] > size - KERNELS

    cut()


@by_hand
async def test_a_client_that_reads_slowly_but_in_time_gets_all(clock: Clock) -> None:
    async with by_hand_front("server.write_timeout=10s") as (gateway, backend), client(gateway.port) as slow:
        backend.on("echo", result({"echo": "x" * 4 * MIB}))
        slow.stop_reading()
        slow.write(CALL)
        await backend.called("echo")
        await clock.moves_on(9)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        raw = await slow.answer()
        assert status_of(raw) == 200
        assert len(raw) > 4 * MIB
        assert gateway.held.bytes == 0
        await clock.moves_on(2)
        slow.write(PING)
        assert status_of(await slow.answer()) == 200


@by_hand
async def test_a_stream_on_which_nothing_waits_stays_open(clock: Clock) -> None:
    """It may be silent for longer than an answer may wait."""
    knobs = ("server.write_timeout=1s", "mcp.heartbeat=5s")
    async with by_hand_front(*knobs) as (gateway, _), client(gateway.port) as slow:
        slow.write(LISTEN)
        await clock.moves_on(6)
        await slow.reader.readuntil(b"acknowledged")
        await slow.reader.readuntil(b"\n:\n\n")
        assert not slow.reader.at_eof()


SURFACES = {
    "modern": posted("/mcp", modern_request("tools/list"), modern_headers("tools/list")),
    "legacy": PING,
    "rest": CALL,
    "jsonrpc": posted("/jsonrpc", request("echo", [1]), {}),
}


async def holding(clock: Clock, gateway: Server, slow: Slow, backend: ScriptedBackend, size: int) -> None:
    """Return once an answer of about this size waits for a client that does not read."""
    before = gateway.held.by_owner.total()
    backend.on("echo", result({"echo": "x" * size}))
    slow.stop_reading()
    slow.write(CALL)
    await clock.until(lambda: gateway.held.by_owner.total() > before)


async def asked(gateway: Server, sent: bytes, address: str) -> bytes:
    async with client(gateway.port, address) as quick:
        quick.write(sent)
        return await quick.answer()


@by_hand
async def test_a_caller_whose_unread_answers_are_a_quarter_of_all_waits_and_others_do_not(clock: Clock) -> None:
    async with by_hand_front("server.max_buffered=8MiB") as (gateway, backend):
        async with client(gateway.port, "127.0.0.2") as slow:
            await holding(clock, gateway, slow, backend, 4 * MIB)
            backend.on("echo", result(1))
            raw = await asked(gateway, CALL, "127.0.0.2")
            assert status_of(raw) == 503
            assert b"\r\nRetry-After: 5\r\n" in raw
            assert raw.endswith(
                b'"overloaded","message":"Too many of your answers and bodies are held: read or send faster; '
                b'the call was not sent, so it is safe to repeat"}}'
            )
            assert status_of(await asked(gateway, CALL, "127.0.0.3")) == 200
        await clock.until(lambda: not gateway.held.bytes)
        assert status_of(await asked(gateway, CALL, "127.0.0.2")) == 200


@by_hand
async def test_an_answer_that_finds_no_room_is_not_read_and_its_caller_is_told(clock: Clock) -> None:
    async with by_hand_front("server.max_buffered=8MiB") as (gateway, backend):
        async with client(gateway.port, "127.0.0.2") as slow:
            await holding(clock, gateway, slow, backend, 5 * MIB)
            before = gateway.held.bytes
            backend.on("echo", result({"echo": "x" * 5 * MIB}))
            raw = await asked(gateway, CALL, "127.0.0.3")
            assert status_of(raw) == 503
            assert (
                b"The gateway holds too many answers to read this one; whether the call took effect is unknown" in raw
            )
            assert gateway.held.bytes == before
            assert backend.calls("echo") == 2, "it is not sent again"
        await clock.until(lambda: not gateway.held.bytes)


@by_hand
async def test_where_too_much_is_held_calls_of_who_holds_some_are_503_until_clients_have_read(clock: Clock) -> None:
    async with by_hand_front("server.max_buffered=16MiB") as (gateway, backend), AsyncExitStack() as stack:
        with capture_logs() as lines:
            slow = [await stack.enter_async_context(client(gateway.port, f"127.0.0.{n}")) for n in range(2, 6)]
            for one in slow:
                await holding(clock, gateway, one, backend, 4 * MIB)
            assert 14 * MIB <= gateway.held.bytes <= 16 * MIB
            raw = await asked(gateway, CALL, "127.0.0.9")
            assert b"The gateway holds too many answers to read this one" in raw
            backend.on("echo", result(1))
            for sent in SURFACES.values():
                assert status_of(await asked(gateway, sent, "127.0.0.9")) == 200
            calls = backend.calls("echo")
            for sent in SURFACES.values():
                raw = await asked(gateway, sent, "127.0.0.2")
                assert status_of(raw) == 503
                assert b"\r\nRetry-After: 5\r\n" in raw
                assert b"The gateway holds too many answers and bodies of slow clients" in raw
                assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] in (503, "overloaded")
            assert backend.calls("echo") == calls
            slow[0].writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await slow[0].answer()) > 4 * MIB
            assert status_of(await asked(gateway, CALL, "127.0.0.2")) == 200
        events = [line["event"] for line in lines if line["event"].startswith("calls are")]
        assert events == ["calls are refused", "calls are no longer refused"], "a line for each change, not each call"


@by_hand
async def test_a_head_without_end_is_refused_at_64_kib(clock: Clock) -> None:
    """Lines and their number are bounded, but allow a megabyte: some hundred strangers could fill the memory."""
    async with by_hand_front() as (gateway, _), client(gateway.port) as slow:
        slow.write(PING[:50] + b"\r\n")
        for number in range(9):
            await clock.settles()
            slow.write(b"X-%d: " % number + b"x" * 8000 + b"\r\n")
        await clock.settles()
        raw = await slow.rest()
        assert status_of(raw) == 400
        assert raw.endswith(b'"The head of the request is larger than 64 KiB"}}')
