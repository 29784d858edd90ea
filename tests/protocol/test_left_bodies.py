"""Bodies that nobody takes, that do not come, or that go wrong: what the answer says, and what follows it."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing

from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, front
from tests.program import serving
from tests.protocol.test_split_requests import ADD, CHUNKED, CHUNKS, GET, UPGRADE, answered, posted
from tests.protocol.test_split_requests import UPGRADED_GET as UPGRADED
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE

LARGE = ADD + b" " * 200_000
"""More than may wait until somebody reads it, and less than is read from a socket at once."""
UNTAKEN = {
    "length": (posted(LARGE, path="/nope"), 404),
    "chunked": (posted(b"%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE), LARGE), CHUNKED, path="/nope"), 404),
    "another method": (posted(LARGE).replace(b"POST", b"PUT"), 405),
    "another type": (posted(LARGE).replace(b"application/json", b"text/plain"), 415),
    "too large": (posted(ADD + b" " * 2_000_000), 413),
    "expected": (posted(LARGE, "Expect: nothing"), 417),
}


def open_connections(front: Front) -> set[object]:
    assert front.gateway is not None
    return front.gateway._ports[-1].serving.connections


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@each("sent", [*UNTAKEN])
@each("pause", {"at once": False, "later": True})
async def test_a_request_is_answered_behind_a_body_that_nobody_took(gateway: Server, sent: str, pause: bool) -> None:
    raw, status = UNTAKEN[sent]
    place = raw.index(b"\r\n\r\n") + 4 if pause else 0
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    with closing(writer):
        async with asyncio.timeout(PATIENCE):
            writer.write(raw[:place])
            if pause:
                assert await answered(reader) == status
            writer.write(raw[place:])
            if not pause:
                assert await answered(reader) == status
            for _ in range(2):
                writer.write(GET)
                assert await answered(reader) == 404


async def test_the_program_itself_answers_behind_a_body_that_nobody_took(backend: ScriptedBackend) -> None:
    """On uvloop."""
    async with serving(backend.url) as (_, gateway), asyncio.timeout(PATIENCE):
        for raw, status in UNTAKEN.values():
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            with closing(writer):
                writer.write(raw)
                assert await answered(reader) == status
                writer.write(GET)
                assert await answered(reader) == 404


@by_hand
async def test_the_rest_of_a_body_that_nobody_needs_has_ten_seconds(clock: Clock) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        with closing(writer):
            sent = posted(LARGE, path="/nope")
            writer.write(sent[: sent.index(b"\r\n\r\n") + 9])
            await answered(reader)
            await clock.moves_on(9)
            assert not reader.at_eof()
            await clock.moves_on(2)
            assert await reader.read() == b""


@by_hand
async def test_what_comes_behind_a_refusal_is_read_for_ten_seconds_so_that_no_reset_overtakes_it(clock: Clock) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        for sent in (posted(CHUNKS, CHUNKED).replace(b" chunked", b" gzip, chunked"), b"no HTTP\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            with closing(writer):
                writer.write(sent)
                await clock.settles()
                for _ in range(20):
                    writer.write(bytes(100_000))
                    await clock.settles()
                assert await answered(reader) == 400
                assert await reader.read() == b""
                assert len(open_connections(gateway)) == 1
                await clock.moves_on(11)
                assert len(open_connections(gateway)) == 0


@each("wait", {"at once": False, "later": True})
@each("path", ["/mcp/tools/invoke", "/nope"])
async def test_a_body_that_breaks_is_answered_with_the_end_of_the_connection(
    gateway: Server, backend: ScriptedBackend, path: str, wait: bool
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    with closing(writer):
        async with asyncio.timeout(PATIENCE):
            writer.write(posted(b"5\r\n12345\r\n", CHUNKED, path=path))
            head = await head_of(reader) if wait and path == "/nope" else b""
            await asyncio.sleep(0.02 if wait else 0)
            writer.write(b"no chunk\r\n")
            raw = head + await reader.read()
    assert raw.startswith(b"HTTP/1.1 404 " if head else b"HTTP/1.1 400 ")
    assert (b"\r\nConnection: close\r\n" in raw) is not bool(head)
    assert raw.count(b"\r\n\r\n") == 1
    assert backend.requests == []


async def test_what_is_no_http_behind_a_call_is_told_after_its_answer(
    gateway: Server, backend: ScriptedBackend
) -> None:
    watched = Watched()
    backend.on("add", watched)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    with closing(writer):
        async with asyncio.timeout(PATIENCE):
            writer.write(posted(ADD))
            await watched.begun()
            writer.write(GET + b"no HTTP\r\n\r\n" + posted(ADD))
            await asyncio.sleep(0.02)
            watched.release()
            assert [await answered(reader) for _ in range(3)] == [200, 404, 400]
            assert await reader.read() == b""
    assert backend.calls("add") == 1


@each("before", {"a request": GET, "a call": posted(ADD), "an upgrade": UPGRADED})
@each("part", ["target", "header", "target without headers"])
async def test_a_line_is_as_long_behind_another_request_as_it_is_alone(
    gateway: Server, before: bytes, part: str
) -> None:
    long = b"x" * 9000
    sent = GET.replace(b"/nope", b"/" + long) if part == "target" else GET.replace(b"Host", b"X: " + long + b"\r\nHost")
    if part == "target without headers":
        sent = b"GET /" + long + b" HTTP/1.0\r\n\r\n"
    for first in (b"", before):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        with closing(writer):
            async with asyncio.timeout(PATIENCE):
                writer.write(first + sent)
                raw = await reader.read()
        error = json.loads(raw.rpartition(b"\r\n\r\n")[2])["error"]
        assert error["message"] == "The request line or a header is too long"


@each("coding", ["gzip", "gzip, chunked", "identity", "x"])
async def test_an_upgrade_with_an_unknown_transfer_coding_is_400_and_the_end(
    gateway: Server, backend: ScriptedBackend, coding: str
) -> None:
    head = posted(b"", CHUNKED, *UPGRADE).replace(CHUNKED.encode(), f"Transfer-Encoding: {coding}".encode())
    for body in (b"", b"0\r\n\r\n", ADD):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        with closing(writer):
            async with asyncio.timeout(PATIENCE):
                writer.write(head + body + posted(ADD))
                raw = await head_of(reader)
        assert raw.startswith(b"HTTP/1.1 400 ")
        assert b"\r\nConnection: close\r\n" in raw
    assert backend.requests == []


async def test_many_requests_that_ask_for_an_upgrade_may_come_at_once(gateway: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    with closing(writer):
        async with asyncio.timeout(PATIENCE):
            writer.write(UPGRADED * 300)
            assert [await answered(reader) for _ in range(300)] == [404] * 300
