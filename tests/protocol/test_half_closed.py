"""A client that sends no more and waits for its answer, as ``nc -N`` does, and one that is gone: both send the same."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.program import serving
from tests.protocol.talk import LEGACY, legacy_headers, modern_headers, modern_request, request
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE

CALL: dict[str, Any] = {"name": "add", "arguments": {"a": 2, "b": 3}}
STREAMED = CALL | {"_meta": {"progressToken": "p"}}
SURFACES = {
    "modern": ("/mcp", modern_request("tools/call", CALL), modern_headers("tools/call", "add")),
    "legacy": ("/mcp", request("tools/call", CALL), legacy_headers(LEGACY[0])),
    "invoke": ("/mcp/tools/invoke", CALL, {}),
    "tool": ("/mcp/tools/add", request("add", [2, 3]), {}),
    "jsonrpc": ("/jsonrpc", request("add", [2, 3]), {}),
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def written(surface: str, version: str = "1.1") -> bytes:
    path, message, headers = SURFACES[surface]
    return posted(path, message, headers, version)


def posted(path: str, message: object, headers: dict[str, str], version: str = "1.1") -> bytes:
    body = json.dumps(message)
    fields = {
        "Host": "127.0.0.1",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/{version}\r\n{lines}\r\n{body}".encode()


class HalfClosed:
    """A connection that says these bytes, and that nothing follows."""

    def __init__(self, port: int, sent: bytes) -> None:
        self._port = port
        self._sent = sent

    async def __aenter__(self) -> asyncio.StreamReader:
        reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.writer.write(self._sent)
        self.writer.write_eof()
        return reader

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()


def check_sum(raw: bytes) -> None:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 "))
    assert json.loads(body)["result"]
    assert b'"sum":5' in body


@pytest.fixture
def watched(backend: ScriptedBackend) -> Watched:
    """The method ``add``, which answers when it is released."""
    watched = Watched()
    backend.on("add", watched)
    return watched


@each("surface", [*SURFACES])
async def test_a_client_that_sends_no_more_gets_its_answer_and_the_end(gateway: Server, surface: str) -> None:
    async with asyncio.timeout(PATIENCE), HalfClosed(gateway.port, written(surface)) as reader:
        check_sum(await reader.read())


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_client_that_sends_no_more_may_wait_for_its_answer(
    gateway: Server, watched: Watched, surface: str
) -> None:
    async with asyncio.timeout(PATIENCE), HalfClosed(gateway.port, written(surface)) as reader:
        await watched.begun()
        watched.release()
        raw = await reader.read()
        check_sum(raw.replace(CONTINUE, b""))  # a busy machine may take its time


async def test_health_is_told_to_who_sends_no_more(gateway: Server) -> None:
    sent = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    async with asyncio.timeout(PATIENCE), HalfClosed(gateway.admin_port, sent) as reader:
        assert (await reader.read()).endswith(b"alive\n")


async def test_the_program_itself_answers_who_sends_no_more(backend: ScriptedBackend, watched: Watched) -> None:
    """On uvloop, which has an opinion of its own on half-closed connections."""
    async with serving(backend.url) as (_, gateway), asyncio.timeout(PATIENCE):
        port = int(gateway.base.rpartition(":")[2])
        async with HalfClosed(port, written("invoke")) as reader:
            await watched.begun()
            watched.release()
            check_sum((await reader.read()).replace(CONTINUE, b""))


async def test_the_program_itself_lets_go_of_a_call_whose_client_is_gone(
    backend: ScriptedBackend, watched: Watched
) -> None:
    async with serving(backend.url) as (_, gateway), asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection("127.0.0.1", int(gateway.base.rpartition(":")[2]))
        writer.write(written("invoke"))
        await watched.begun()
        writer.close()
        assert await watched.over() == "abandoned"


@by_hand
async def test_a_client_that_waits_long_is_asked_now_and_then_whether_it_is_there(clock: Clock) -> None:
    """RFC 9110 §15.2: a client takes any number of interim answers; we send few."""
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        watched = Watched()
        backend.on("add", watched)
        assert gateway.gateway is not None
        async with HalfClosed(gateway.gateway.port, written("invoke")) as reader:
            await watched.begun()
            await clock.moves_on(25)
            watched.release()
            raw = await reader.read()
            assert raw.startswith(CONTINUE)
            assert 2 <= raw.count(CONTINUE) <= 10
            check_sum(raw.replace(CONTINUE, b""))


@by_hand
async def test_a_client_of_http_1_0_is_asked_nothing(clock: Clock) -> None:
    """RFC 9110 §15.2: it does not know interim answers."""
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        watched = Watched()
        backend.on("add", watched)
        assert gateway.gateway is not None
        async with HalfClosed(gateway.gateway.port, written("invoke", "1.0")) as reader:
            await watched.begun()
            await clock.moves_on(25)
            watched.release()
            check_sum(await reader.read())


async def test_a_stream_ends_with_its_clients_word(gateway: Server, watched: Watched) -> None:
    """2026-07-28 basic/patterns/cancellation: closing a stream is the cancellation."""
    sent = posted("/mcp", modern_request("tools/call", STREAMED), modern_headers("tools/call", "add"))
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(sent)
        assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
        await watched.begun()
        writer.write_eof()
        assert await watched.over() == "abandoned"
        await reader.read()
        writer.close()


@each("sent", {"nothing": b"", "head": b"POST /mcp HT", "body": written("invoke")[:-5]})
async def test_a_request_that_breaks_off_ends_the_connection_at_once(
    gateway: Server, backend: ScriptedBackend, sent: bytes
) -> None:
    async with asyncio.timeout(PATIENCE), HalfClosed(gateway.port, sent) as reader:
        assert await reader.read() == b""
        assert backend.requests == []


async def test_an_idle_connection_ends_with_its_client(gateway: Server) -> None:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(written("invoke"))
        await reader.readuntil(b"}}")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
