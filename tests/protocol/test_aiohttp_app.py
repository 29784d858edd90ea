"""The gateway as an application of aiohttp: alone, below a prefix of another application, and from start to stop.

What concerns bytes (pipelining, half-closed and slow clients, malformed HTTP) is aiohttp's there, and not tested here.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.aiohttp_app import GATEWAY, aiohttp_app
from gateway.errors import InternalError
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import Response, StreamedResponse
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import settings
from tests.protocol.embedding import Open, served, within
from tests.protocol.sites import PUBLIC
from tests.protocol.streams import Mark
from tests.protocol.talk import JSON, LEGACY, MODERN, Client, legacy_headers, modern_headers, modern_request
from tests.protocol.test_progress import called, told
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE, until

CALL: Final = {"name": "add", "arguments": {"a": 2, "b": 3}}
CHANGED: Final = "notifications/tools/list_changed"


@pytest.fixture(params=["", "/gw"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def opened(aiohttp_client: Open, backend: ScriptedBackend, prefix: str) -> Callable[..., Awaitable[Client]]:
    """``await opened("section.knob=value", ...)`` is a client of a gateway, alone or below a prefix."""

    async def opened(*knobs: str) -> Client:
        app = aiohttp_app(settings(backend.url, f"server.public_url={PUBLIC}{prefix}", *knobs), prefix)
        test_client = await aiohttp_client(within(app, prefix) if prefix else app)
        await app[GATEWAY].wait_until_listed()
        return Client(test_client.session, test_client.server.port or 0, prefix)

    return opened


async def test_lists_and_calls_are_the_same_on_each_surface(opened: Callable[..., Awaitable[Client]]) -> None:
    client = await opened()
    for era in (MODERN, LEGACY[0]):
        assert "add" in [tool["name"] for tool in (await client.speak(era, "tools/list")).result["tools"]]
        assert (await client.speak(era, "tools/call", CALL)).result["structuredContent"] == {"sum": 5}
    assert "add" in [tool["name"] for tool in (await client.get("/mcp/tools/list")).json["tools"]]
    assert (await client.post("/mcp/tools/invoke", CALL)).json == {"result": {"sum": 5}}
    single = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": {"a": 2, "b": 3}}
    for path in ("/mcp/tools/add", "/jsonrpc"):
        assert (await client.post(path, single)).json == {"jsonrpc": "2.0", "id": 1, "result": {"sum": 5}}
    notice = await client.post("/jsonrpc", {"jsonrpc": "2.0", "method": "add", "params": {"a": 2, "b": 3}})
    assert (notice.status, notice.body) == (204, b"")


async def test_errors_have_the_gateway_s_form_and_headers(opened: Callable[..., Awaitable[Client]]) -> None:
    client = await opened("server.max_body=2KiB")
    large = await client.post("/mcp/tools/invoke", b" " * 2049)
    assert (large.status, large.json["error"]["code"]) == (413, "too_large")
    refused = await client.send("PUT", "/mcp", b"{}", JSON)
    assert (refused.status, refused.headers["Allow"]) == (405, "DELETE, GET, POST")
    assert (await client.get("/nope")).json["error"]["code"] == "not_found"
    assert (await client.get("/mcp/tools/list", Host="evil.example.com")).status == 421
    assert (await client.get("/mcp/tools/list", Origin="https://evil.example.com")).status == 403
    head = await client.send("HEAD", "/mcp/tools/list")
    assert (head.status, head.body, head.headers["Cache-Control"]) == (200, b"", "no-store")
    assert int(head.headers["Content-Length"]) > 100


async def test_a_body_may_be_packed_come_in_parts_or_end_too_early(opened: Callable[..., Awaitable[Client]]) -> None:
    client = await opened("server.max_body=2KiB")
    raw = json.dumps(CALL).encode()
    packed = await client.post("/mcp/tools/invoke", gzip.compress(raw), {"Content-Encoding": "gzip"})
    assert packed.json == {"result": {"sum": 5}}
    bomb = await client.post("/mcp/tools/invoke", gzip.compress(b" " * 100_000), {"Content-Encoding": "gzip"})
    assert bomb.json["error"]["code"] == "too_large"
    torn = await client.post("/mcp/tools/invoke", b"{}", {"Content-Encoding": "gzip"})
    assert (torn.status, torn.json["error"]["message"]) == (
        400,
        "The body is not gzip, as Content-Encoding says, or incomplete",
    )
    path = f"{client.mount}/mcp/tools/invoke"
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: {len(raw)}\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE):
        assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        for byte in raw:
            writer.write(bytes((byte,)))
            await writer.drain()
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    with capture_logs() as logs:
        writer.write(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw[:5])
        await writer.drain()
        writer.transport.abort()
        await until(lambda: [line for line in logs if line["event"] == "request"])


async def test_progress_comes_while_the_call_runs(
    opened: Callable[..., Awaitable[Client]], backend: ScriptedBackend
) -> None:
    client = await opened("mcp.heartbeat=50ms")
    watched = Watched()
    backend.on("add", watched)
    async with client.stream(*called(MODERN, "p")) as stream:
        for beat in (0, 1):
            assert (await stream.message())["params"] == told("p", "add", beat)
        watched.release()
        assert (await stream.rest())[-1]["result"]["structuredContent"] == {"sum": 5}


async def test_the_stream_of_a_client_of_http_1_0_ends_with_its_connection(
    opened: Callable[..., Awaitable[Client]],
) -> None:
    """Nothing else tells that client where the stream ends, also one that asks to keep the connection."""
    client = await opened()
    body, headers = called(MODERN, "p")
    raw = json.dumps(body).encode()
    lines = [f"POST {client.mount}/mcp HTTP/1.0", "Host: localhost", "Connection: keep-alive"]
    lines += [f"{name}: {value}" for name, value in {**JSON, **headers, "Content-Length": str(len(raw))}.items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
    async with asyncio.timeout(PATIENCE):
        said = await reader.read()
    writer.close()
    assert b'"sum":5' in said
    assert b"Transfer-Encoding" not in said


async def test_a_stream_of_notices_tells_of_a_change(
    opened: Callable[..., Awaitable[Client]], backend: ScriptedBackend
) -> None:
    client = await opened("catalog.ttl=50ms")
    async with client.listen({"toolsListChanged": True}) as stream:
        await stream.message()
        backend.on("rpc.discover", result(openrpc([ADD])))
        assert (await stream.message())["method"] == CHANGED


@each("streamed", [False, True])
async def test_a_call_ends_when_its_client_hangs_up(backend: ScriptedBackend, streamed: bool) -> None:
    watched = Watched()
    backend.on("add", watched)
    app = aiohttp_app(settings(backend.url))
    async with served(app) as (port, _), ClientSession() as session:
        body, headers = (
            called(MODERN, "p")
            if streamed
            else (modern_request("tools/call", CALL), modern_headers("tools/call", "add"))
        )
        with capture_logs() as logs:
            call = asyncio.create_task(Client(session, port).mcp(body, headers))
            await watched.begun()
            call.cancel()
            assert await watched.over() == "abandoned"
            (line,) = await until(lambda: [line for line in logs if line["event"] == "request"])
        assert (line["outcome"], line["status"]) == ("left", 200 if streamed else 0)
        assert (app[GATEWAY].held.bytes, app[GATEWAY].services[""].uses.running) == (0, 0)


@each("era", [MODERN, LEGACY[0]])
async def test_streams_end_at_once_where_the_application_does_and_nothing_is_left(
    backend: ScriptedBackend, era: str
) -> None:
    before = len(asyncio.all_tasks())
    app = aiohttp_app(settings(backend.url))
    async with served(app) as (port, runner), ClientSession() as session:
        client = Client(session, port)
        opening = (
            client.listen({"toolsListChanged": True})
            if era == MODERN
            else client.stream(None, {"Accept": "text/event-stream", **legacy_headers(era)})
        )
        async with opening as stream:
            await stream.event()
            async with asyncio.timeout(30):  # half of the time that aiohttp would wait
                await runner.cleanup()
            assert Mark.END in [await stream.event(), await stream.event()]
    await until(lambda: len(asyncio.all_tasks()) == before)


async def test_a_stream_that_fails_ends_its_connection(backend: ScriptedBackend) -> None:
    class Failing:
        """Streams a part, and then fails."""

        async def __call__(self, request: HttpRequest) -> StreamedResponse:
            return StreamedResponse(self._parts(), "text/plain", {})

        async def _parts(self) -> Any:
            yield b"part"
            raise RuntimeError("no more")

        def refusal(self, _: HttpRequest, error: Exception) -> Response:
            assert isinstance(error, InternalError)
            return Response(status=500)

    app = aiohttp_app(settings(backend.url))
    async with served(app) as (port, _):
        app[GATEWAY].handler = Failing()  # type: ignore[assignment]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            said = await reader.read()
        writer.close()
    assert said.endswith(b"4\r\npart\r\n")
    assert said.count(b"HTTP/1.1 ") == 1
