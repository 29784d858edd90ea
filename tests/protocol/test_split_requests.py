"""Requests whose bytes arrive in pieces: wherever they are cut, the answers are the same."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from gateway.process.server import Server
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.program import serving
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE

ADD: Final = json.dumps({"name": "add", "arguments": {"a": 2, "b": 3}}).encode()
CHUNKS: Final = b"9;x=y\r\n%b\r\n%x\r\n%b\r\n0\r\nX-Trailer: z\r\n\r\n" % (ADD[:9], len(ADD) - 9, ADD[9:])
UPGRADE: Final = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
CHUNKED: Final = "Transfer-Encoding: chunked"
GET: Final = b"GET /nope HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
UPGRADED_GET: Final = GET.replace(b"\r\n\r\n", "\r\n".join(("", *UPGRADE, "", "")).encode())


def posted(body: bytes, *lines: str, path: str = "/mcp/tools/invoke") -> bytes:
    framing = () if CHUNKED in lines else (f"Content-Length: {len(body)}",)
    fields = "\r\n".join(("Host: 127.0.0.1", "Content-Type: application/json", *framing, *lines))
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body


REQUESTS: Final = {
    "length": (posted(ADD), 200),
    "chunked": (posted(CHUNKS, CHUNKED), 200),
    "nobody needs the body": (posted(CHUNKS, CHUNKED, path="/nope"), 404),
    "upgrade": (posted(ADD, *UPGRADE), 200),
    "upgrade, chunked": (posted(CHUNKS, CHUNKED, *UPGRADE), 200),
    "upgrade, nobody needs the body": (posted(ADD, *UPGRADE, path="/nope"), 404),
    "upgrade, empty": (posted(b"", *UPGRADE), 400),
    "upgrade, no body": (UPGRADED_GET, 404),
}
ALL: Final = b"".join(request for request, _ in REQUESTS.values()) + GET
STATUSES: Final = [*(status for _, status in REQUESTS.values()), 404]


async def answered(reader: asyncio.StreamReader) -> int:
    """The status of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:] if line)
    await reader.readexactly(int(fields[b"content-length"]))
    return int(head.split(b" ", 2)[1])


async def statuses(port: int, *parts: bytes, pause: float = 0) -> list[int]:
    """The statuses of as many answers as :data:`STATUSES` has, or as many of them as come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE):
            for part in parts:
                writer.write(part)
                await asyncio.sleep(pause)
            return [await answered(reader) for _ in STATUSES]
    finally:
        writer.transport.abort()


async def test_requests_that_are_cut_in_two_anywhere_are_answered_the_same(gateway: Server) -> None:
    for start in range(0, len(ALL), 150):
        cuts = range(start, min(start + 150, len(ALL)), 3)
        found = await asyncio.gather(*(statuses(gateway.port, ALL[:cut], ALL[cut:]) for cut in cuts))
        assert {cut: each for cut, each in zip(cuts, found, strict=True) if each != STATUSES} == {}


async def test_requests_that_come_byte_by_byte_are_answered_the_same(gateway: Server) -> None:
    assert await statuses(gateway.port, *(ALL[at : at + 1] for at in range(len(ALL)))) == STATUSES


@each("size", [7, 100, 1000])
async def test_the_program_itself_answers_requests_in_pieces(backend: ScriptedBackend, size: int) -> None:
    """On uvloop."""
    parts = [ALL[at : at + size] for at in range(0, len(ALL), size)]
    async with serving(backend.url) as (_, front):
        assert await statuses(front.port, *parts, pause=0.0005) == STATUSES


@each("name", [*REQUESTS])
@each("cut", {"all of it": 1, "its head": 30, "its end": -1})
async def test_the_rest_of_a_request_may_come_while_an_earlier_one_is_running(
    gateway: Server, backend: ScriptedBackend, name: str, cut: int
) -> None:
    watched = Watched()
    backend.on("add", watched)
    sent, status = REQUESTS[name]
    place = sent.index(b"\r\n\r\n") + 5 if cut == 30 else cut
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(PATIENCE):
        writer.write(posted(ADD) + sent[:place])
        await watched.begun()
        writer.write(sent[place:] + GET)
        await asyncio.sleep(0.01)
        watched.release()
        assert [await answered(reader) for _ in range(3)] == [200, status, 404]
    writer.close()


@each("framing", ["length", "chunked"])
@each(("path", "status"), [("/mcp/tools/invoke", 200), ("/nope", 404)])
async def test_a_large_body_may_come_while_an_earlier_request_is_running(
    gateway: Server, backend: ScriptedBackend, framing: str, path: str, status: int
) -> None:
    """Also one that nobody takes: what follows it is read nevertheless."""
    watched = Watched()
    backend.on("add", watched)
    body = ADD + b" " * 300_000
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    large = posted(body, path=path) if framing == "length" else posted(chunk, CHUNKED, path=path)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(PATIENCE):
        writer.write(posted(ADD) + large)
        await watched.begun()
        await asyncio.sleep(0.05)
        watched.release()
        assert [await answered(reader) for _ in range(2)] == [200, status]
        writer.write(GET)
        assert await answered(reader) == 404
    writer.close()
