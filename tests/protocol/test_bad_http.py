"""Requests that HTTP should stop: size, media type, encoding, what the client accepts (security.md H05, H12 to H24)."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from typing import Any

from gateway.networks import AddressReader
from gateway.process.server import Server
from gateway.web.public import Origins, PublicHandler
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.bounds import listen
from tests.protocol.conftest import Connect
from tests.protocol.talk import JSON, MODERN, Client, exchange, modern_headers, modern_request, request, status_of

CALL = {"name": "add", "arguments": {"a": 2, "b": 3}}
ADD = json.dumps(request("tools/call", CALL)).encode()
REST_ADD = json.dumps(CALL).encode()
TOOL_ADD = json.dumps(request("add", [2, 3])).encode()
PLACES = {
    "mcp": ("/mcp", ADD),
    "invoke": ("/mcp/tools/invoke", REST_ADD),
    "tool": ("/mcp/tools/add", TOOL_ADD),
}
TYPES = [
    None,
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "application/json; charset=latin-1",
    "application/json; charset=\u00fctf",
    "application/json; charset*=nothing'en'%FF%FE",
    "application/jsonx",
    "text/json",
]


def code(path: str, status: int, slug: str) -> Any:
    """How this error reads in the language of the path: JSON-RPC on MCP and on a tool's own path, a slug elsewhere."""
    return status if path in ("/mcp", "/mcp/tools/add") else slug


@each(("path", "body"), PLACES)
@each("content_type", ["application/json", "Application/JSON; charset=UTF-8"])
async def test_json_is_taken(client: Client, path: str, body: bytes, content_type: str) -> None:
    answer = await client.send("POST", path, body, {"Content-Type": content_type})
    assert answer.status == 200
    assert answer.json["result"]


@each(("path", "body"), PLACES)
@each("content_type", TYPES)
async def test_another_content_type_is_415(
    client: Client, backend: ScriptedBackend, path: str, body: bytes, content_type: str | None
) -> None:
    """H23: a foreign page may send text/plain and forms without asking (CORS "simple requests")."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    head += f"Content-Type: {content_type}\r\n\r\n" if content_type else "\r\n"
    raw = await exchange(client.port, head.encode() + body)
    assert status_of(raw) == 415
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == code(path, 415, "unsupported_media_type")
    assert backend.requests == []


@each("accept", ["application/json", "*/*", "application/*", "text/event-stream, application/json", None])
async def test_a_client_that_takes_json_gets_it(client: Client, accept: str | None) -> None:
    headers = {"Content-Type": "application/json"} | ({"Accept": accept} if accept else {})
    assert (await client.send("POST", "/mcp", ADD, headers)).status == 200


@each("accept", ["text/html", "text/event-stream", "image/*", "text/plain;q=0.5, text/html"])
@each("era", [MODERN, None])
async def test_a_client_that_does_not_accept_json_gets_406(
    client: Client, backend: ScriptedBackend, accept: str, era: str | None
) -> None:
    """H24; every revision: the client MUST list application/json, which all our answers are."""
    headers = modern_headers("tools/call", "add") if era else {}
    body = modern_request("tools/call", CALL) if era else request("tools/call", CALL)
    answer = await client.mcp(body, headers | {"Accept": accept})
    assert answer.fault == (406, 406)
    assert "id" not in answer.json
    assert backend.requests == []


@each(("path", "body"), PLACES)
async def test_a_gzipped_body_is_read(client: Client, path: str, body: bytes) -> None:
    headers = JSON | {"Content-Encoding": "gzip"}
    assert (await client.send("POST", path, gzip.compress(body), headers)).json["result"]


@each("encoding", ["deflate", "gzip, gzip", "compress", "identity, gzip", "rot13"])
async def test_another_content_encoding_is_415(client: Client, backend: ScriptedBackend, encoding: str) -> None:
    """H14: identity, or gzip once."""
    body = zlib.compress(ADD) if encoding == "deflate" else gzip.compress(ADD)
    answer = await client.send("POST", "/mcp", body, JSON | {"Content-Encoding": encoding})
    assert answer.status == 415
    assert backend.requests == []


@each(
    ("encoding", "body", "status"),
    {
        "br": ("br", ADD, 415),
        "zstd": ("zstd", ADD, 415),
        "not packed": ("gzip", ADD, 400),
        "cut off": ("gzip", gzip.compress(ADD)[:-9], 400),
        "another checksum": ("gzip", gzip.compress(ADD)[:-8] + bytes(8), 400),
        "two members": ("gzip", gzip.compress(ADD) + gzip.compress(ADD), 400),
        "zlib": ("gzip", zlib.compress(ADD), 400),
        "packed twice": ("gzip", gzip.compress(gzip.compress(ADD)), 400),
        "nothing": ("gzip", b"", 400),
    },
)
async def test_a_body_that_is_not_encoded_as_it_says_is_refused(
    client: Client, backend: ScriptedBackend, encoding: str, body: bytes, status: int
) -> None:
    """H14: identity, or one whole gzip member."""
    answer = await client.send("POST", "/mcp", body, JSON | {"Content-Encoding": encoding})
    assert answer.status == status
    assert backend.requests == []


@each(("path", "body"), PLACES)
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(
    client: Client, backend: ScriptedBackend, path: str, body: bytes
) -> None:
    """H12: Content-Length of 2 GiB and nothing behind it is answered at once, not after a timeout."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {2**31}\r\n\r\n"
    )
    raw = await exchange(client.port, head.encode())
    assert status_of(raw) == 413
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == code(path, 413, "too_large")
    assert backend.requests == []


def padded(body: bytes, size: int) -> bytes:
    """The body with blanks behind it, which JSON allows."""
    return body + b" " * (size - len(body))


@each(("path", "body"), PLACES)
@each("framing", ["length", "chunked", "gzip"])
async def test_the_largest_body_is_taken_and_one_byte_more_is_413(
    connect: Connect, backend: ScriptedBackend, path: str, body: bytes, framing: str
) -> None:
    """H13: however it travels; what counts is the size after decompression."""
    client = await connect("server.max_body=2KiB")
    for size, status, calls in ((2048, 200, 1), (2049, 413, 1), (500_000, 413, 1)):
        answer = await _send(client, path, padded(body, size), framing)
        assert (answer.status, backend.calls("add")) == (status, calls)
    assert answer.error["code"] == code(path, 413, "too_large")


async def _send(client: Client, path: str, body: bytes, framing: str) -> Any:
    if framing == "gzip":
        return await client.send("POST", path, gzip.compress(body), JSON | {"Content-Encoding": "gzip"})
    if framing == "length":
        return await client.send("POST", path, body, JSON)

    async def chunks() -> Any:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    return await client.send("POST", path, chunks(), JSON)


async def test_a_body_that_never_comes_is_408(gateway: Server, backend: ScriptedBackend) -> None:
    """H11: the wait is the gateway's, not the test's."""
    public = PublicHandler(AddressReader(()), Origins(None, (), ()))
    public.sites = {"": replace(gateway.services[""].site, body_timeout=0.05)}
    port = await listen(public)
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"
    try:
        assert status_of(await exchange(port.number, head)) == 408
        assert backend.requests == []
    finally:
        await port.close()


@each(
    "lines",
    {
        "Host twice": "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json",
        "two Hosts": "Host: 127.0.0.1\r\nHost: evil.example\r\nContent-Type: application/json",
        "two spellings": "host: 127.0.0.1\r\nHOST: evil.example\r\nContent-Type: application/json",
        "two Content-Types": "Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Type: text/plain",
        "no Host": "Content-Type: application/json",
    },
)
async def test_headers_that_readers_would_read_differently_are_400(
    gateway: Server, backend: ScriptedBackend, lines: str
) -> None:
    """H05, RFC 9112 §3.2."""
    head = f"POST /mcp HTTP/1.1\r\n{lines}\r\nContent-Length: {len(ADD)}\r\n\r\n"
    assert status_of(await exchange(gateway.port, head.encode() + ADD)) == 400
    assert backend.requests == []


async def test_answers_are_not_kept_by_caches_nor_guessed_at_by_browsers(client: Client) -> None:
    """security.md "Read first": no-store everywhere, refusals included."""
    for answer in (await client.modern("tools/list"), await client.get("/nope"), await client.mcp(b"{")):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
