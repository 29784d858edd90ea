"""Bodies that come slowly, in crumbs, unasked, or as more than they look (security.md H11, H13, H15 to H17)."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator
from typing import Final

from gateway.process.server import Server
from gateway.web.site import BODY_TIMEOUT
from tests.authorization.stand import stand
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.pace import quickly
from tests.protocol.conftest import Start
from tests.protocol.talk import all_said, status_of
from tests.waiting import PATIENCE

CALL: Final = json.dumps({"name": "add", "arguments": {"a": 2, "b": 3}}).encode()
MIB: Final = 1024 * 1024


def head(*lines: str, path: str = "/mcp/tools/invoke") -> bytes:
    fields = "".join(f"{line}\r\n" for line in ("Host: 127.0.0.1", "Content-Type: application/json", *lines))
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n".encode()


def error_of(raw: bytes) -> tuple[int, str]:
    return status_of(raw), json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"]


@by_hand
async def test_a_body_that_trickles_is_408_in_its_time_and_the_end(clock: Clock) -> None:
    """H11: the time is for the whole body, so a byte now and then buys none."""
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        assert gateway.gateway is not None
        backend.requests.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.gateway.port)
        writer.write(head("Content-Length: 1000"))
        await clock.settles()
        for _ in range(int(BODY_TIMEOUT) - 1):
            writer.write(b" ")
            await clock.moves_on(1)
        assert not reader.at_eof()
        writer.write(b" ")
        await clock.moves_on(2)
        raw = await reader.readuntil(b"}}")
        assert error_of(raw) == (408, "request_timeout")
        await clock.moves_on(20)
        await reader.read()
        assert reader.at_eof()
        assert backend.requests == []
        writer.close()


@by_hand
async def test_the_time_of_a_body_passes_while_the_event_loop_is_held_in_small_steps_alone(clock: Clock) -> None:
    """H11: of many large bodies at once, each waits for the gateway's work on the others."""
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        assert gateway.gateway is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.gateway.port)
        writer.write(head(f"Content-Length: {len(CALL)}"))
        await clock.settles()
        for byte in CALL[:10]:
            clock.now += BODY_TIMEOUT / 2  # one turn of the loop took so long
            writer.write(bytes([byte]))
            await clock.settles()
        writer.write(CALL[10:])
        await clock.settles()
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.close()


@each(
    "sent",
    {
        "length": head("Content-Length: 1000") + CALL,
        "chunks": head("Transfer-Encoding: chunked") + b"%x\r\n%s\r\n" % (len(CALL), CALL),
        "chunk": head("Transfer-Encoding: chunked") + b"ff\r\n" + CALL,
    },
)
async def test_a_body_that_breaks_off_is_no_call(gateway: Server, backend: ScriptedBackend, sent: bytes) -> None:
    """H11: what has arrived would be sound JSON, and it is not what the client meant to send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(PATIENCE):
        writer.write(sent)
        writer.write_eof()
        raw = await reader.read()
    writer.close()
    assert raw == b"" or status_of(raw) == 400
    assert backend.requests == []


def bomb(size: int) -> Iterator[bytes]:
    """A gzipped call with ``size`` bytes of blanks behind it, in pieces: one packed mebibyte again and again."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    yield b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    yield deflate.compress(CALL) + deflate.flush(zlib.Z_FULL_FLUSH)
    blanks = deflate.compress(b" " * MIB) + deflate.flush(zlib.Z_FULL_FLUSH)
    for _ in range(size // MIB):
        yield blanks


@each(("path", "fault"), [("/mcp/tools/invoke", (413, "too_large")), ("/nope", (404, "not_found"))])
async def test_a_body_of_200_mb_that_travels_as_200_kb_is_refused_and_not_unpacked(
    gateway: Server, backend: ScriptedBackend, path: str, fault: tuple[int, str]
) -> None:
    """H13: unpacking it all takes half a second of the processor, also after the answer."""
    packed = b"".join(bomb(200 * MIB))
    assert len(packed) < 300_000
    lines = (f"Content-Length: {len(packed)}", "Content-Encoding: gzip", "Connection: close")
    with quickly(0.1):
        raw = await all_said(gateway.port, head(*lines, path=path) + packed)
    assert error_of(raw) == fault
    assert backend.requests == []


async def test_300_trailers_are_400_and_no_call(gateway: Server, backend: ScriptedBackend) -> None:
    """H15: as many as headers are allowed, and no more."""
    trailers = b"".join(b"X-%d: canary\r\n" % number for number in range(300))
    chunks = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(CALL), CALL, trailers)
    raw = await all_said(gateway.port, head("Transfer-Encoding: chunked") + chunks)
    assert status_of(raw) == 400
    assert b"canary" not in raw
    assert backend.requests == []


async def test_a_long_extension_of_a_chunk_is_passed_over(gateway: Server, backend: ScriptedBackend) -> None:
    """H16, RFC 9112 §7.1.1: a recipient ignores extensions that it does not know. None is kept or passed on."""
    chunk = b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(CALL), b"canary" * 3000, CALL)
    raw = await all_said(gateway.port, head("Transfer-Encoding: chunked", "Connection: close") + chunk)
    assert status_of(raw) == 200
    (call,) = backend.requests
    assert b"canary" not in call.body + repr(call.headers).encode()


async def test_a_body_in_a_hundred_thousand_chunks_is_read_at_a_bounded_cost(
    start: Start, backend: ScriptedBackend
) -> None:
    """H16: half a megabyte of framing around a tenth of content is one call, or 413, and never holds up others long."""
    gateway = await start()
    crumbs = CALL + b" " * (100_000 - len(CALL))
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in crumbs) + b"0\r\n\r\n"
    with quickly(1.0):
        raw = await all_said(gateway.port, head("Transfer-Encoding: chunked", "Connection: close") + chunks)
    assert status_of(raw) == 200
    assert backend.calls("add") == 1


UNASKED: Final = {
    "too large": (head("Content-Length: 99999999", "Expect: 100-continue"), (413, "too_large")),
    "encoding": (
        head("Content-Length: 99", "Expect: 100-continue", "Content-Encoding: deflate"),
        (415, "unsupported_media_type"),
    ),
    "nothing there": (head("Content-Length: 99", "Expect: 100-continue", path="/nope"), (404, "not_found")),
}


@each(("sent", "fault"), UNASKED)
async def test_who_is_refused_by_its_head_is_not_asked_for_its_body(
    gateway: Server, backend: ScriptedBackend, sent: bytes, fault: tuple[int, str]
) -> None:
    """H17, RFC 9110 §10.1.1: the final answer at once, and the end, since the body may or may not come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(PATIENCE):
        writer.write(sent)
        raw = await reader.readuntil(b"}}")
    writer.transport.abort()
    assert error_of(raw) == fault
    assert b"\r\nconnection: close\r\n" in raw.lower()
    assert backend.requests == []


async def test_who_shows_no_token_is_not_asked_for_its_body() -> None:
    """H17: a stranger makes the gateway read nothing."""
    async with stand() as it:
        it.backend.requests.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", it.gateway.port)
        async with asyncio.timeout(PATIENCE):
            writer.write(head("Content-Length: 99", "Expect: 100-continue"))
            raw = await reader.readuntil(b"}}")
        writer.transport.abort()
        assert status_of(raw) == 401
        assert b"WWW-Authenticate: Bearer resource_metadata=" in raw
        assert b"100 Continue" not in raw
        assert it.backend.requests == []
