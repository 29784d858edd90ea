"""What a port does for whatever is served on it: the body that a client holds back, headers of every answer, faults."""

from __future__ import annotations

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from gateway.errors import GatewayError
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import TEXT, Response
from gateway.process.server import Server
from gateway.web.exchange import raw_refusal
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.bounds import listen
from tests.protocol.conftest import Start
from tests.protocol.talk import all_said, exchange, status_of
from tests.waiting import PATIENCE

ADD = json.dumps({"name": "add", "arguments": {"a": 2, "b": 3}}).encode()
HEAD = b"POST /mcp/tools/invoke HTTP/%b\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"


def headers_of(raw: bytes) -> list[tuple[str, str]]:
    lines = raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]


async def test_a_client_that_waits_to_be_asked_for_the_body_is_asked(gateway: Server, backend: ScriptedBackend) -> None:
    """RFC 9110 §10.1.1: curl does so with large bodies, and hesitates for a second without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(PATIENCE):
        writer.write(HEAD % (b"1.1", len(ADD)) + b"Expect: 100-Continue\r\nConnection: close\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(ADD)
        raw = await reader.read()
    writer.close()
    assert status_of(raw) == 200
    assert raw.endswith(b'{"result":{"sum":5}}')
    assert backend.calls("add") == 1


async def test_a_client_of_http_1_0_is_not_asked(gateway: Server) -> None:
    """RFC 9110 §10.1.1: the server MUST ignore that expectation."""
    raw = await exchange(gateway.port, HEAD % (b"1.0", len(ADD)) + b"Expect: 100-continue\r\n\r\n" + ADD)
    assert status_of(raw) == 200


async def test_a_body_larger_than_aiohttps_own_bound_is_taken(start: Start) -> None:
    gateway = await start("server.max_body=4MiB")
    body = ADD + b" " * 3 * 2**20
    raw = await exchange(gateway.port, HEAD % (b"1.1", len(body)) + b"Connection: close\r\n\r\n" + body)
    assert raw.endswith(b'{"result":{"sum":5}}')


SENT = {
    "an answer": (b"GET /mcp/tools/list HTTP/1.1", b""),
    "no body": (b"HEAD /mcp/tools/list HTTP/1.1", b""),
    "nothing there": (b"GET /nope HTTP/1.1", b""),
    "another verb": (b"PUT /mcp HTTP/1.1", b""),
    "a preflight": (
        b"OPTIONS /mcp HTTP/1.1",
        b"Origin: http://127.0.0.1\r\nAccess-Control-Request-Method: POST\r\n",
    ),
    "a foreign page": (b"GET /mcp HTTP/1.1", b"Origin: https://evil.example\r\n"),
    "a stream": (b"GET /mcp HTTP/1.1", b"MCP-Protocol-Version: 2025-11-25\r\nAccept: text/event-stream\r\n"),
    "an unknown expectation": (b"GET /mcp HTTP/1.1", b"Expect: nothing\r\n"),
    "HTTP/1.0": (b"GET /mcp/tools/list HTTP/1.0", b""),
    "another HTTP": (b"GET /mcp HTTP/2.0", b""),
    "no HTTP": (b"canary", b""),
    "no header": (b"GET /mcp HTTP/1.1", b"canary\r\n"),
}


@each("port", ["port", "admin_port"])
@each("sent", [*SENT])
async def test_every_answer_has_the_same_headers_once(gateway: Server, sent: str, port: str) -> None:
    """Whoever made it: a handler, a stream, or aiohttp, which would name its version and Python's."""
    line, headers = SENT[sent]
    reader, writer = await asyncio.open_connection("127.0.0.1", getattr(gateway, port))
    async with asyncio.timeout(PATIENCE):
        writer.write(line + b"\r\nHost: 127.0.0.1\r\n" + headers + b"\r\n")
        found = headers_of(await reader.readuntil(b"\r\n\r\n"))
    writer.transport.abort()
    for header in (("server", "gateway"), ("cache-control", "no-store"), ("x-content-type-options", "nosniff")):
        assert [pair for pair in found if pair[0] == header[0]] == [header]


class Broken:
    """Serves nothing well."""

    async def __call__(self, request: HttpRequest) -> Response:
        raise ZeroDivisionError("canary")

    raw_refusal = staticmethod(raw_refusal)

    def refusal(self, _: HttpRequest, error: GatewayError) -> Response:
        return Response(error.message.encode(), error.status, TEXT)


class Splitting(Broken):
    """Answers with a header that would be two."""

    async def __call__(self, request: HttpRequest) -> Response:
        return Response(b"canary", headers={"X-Name": "a\r\nX-Other: b"})


@each("handler", {"raises": Broken(), "a header that would be two": Splitting()})
async def test_a_handler_that_breaks_is_500_that_says_nothing_and_the_end(handler: Broken) -> None:
    port = await listen(handler)
    try:
        with capture_logs():
            raw = await exchange(port.number, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    finally:
        await port.close()
    assert status_of(raw) == 500
    assert raw.endswith(b"\r\n\r\nInternal error")
    assert {("server", "gateway"), ("connection", "close")} <= set(headers_of(raw))


class Remembering(Broken):
    """Knows its first caller alone, and tells whom it knew before."""

    async def __call__(self, request: HttpRequest) -> Response:
        before, request.connection.owner = request.connection.owner, "somebody"
        return Response(repr(before).encode())


async def test_the_caller_of_a_request_is_not_the_one_of_the_request_before_it() -> None:
    """A proxy in front sends the requests of many on one connection, and what they do not take is counted for each."""
    port = await listen(Remembering())
    try:
        raw = await all_said(port.number, b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n")
    finally:
        await port.close()
    assert raw.count(b"\r\n\r\n''") == 2


async def test_a_port_that_is_taken_is_told() -> None:
    port = await listen(Broken())
    with pytest.raises(OSError, match="address already in use"):
        await listen(Broken(), port.number)
    await port.close()
    again = await listen(Broken(), port.number)
    await again.close()
