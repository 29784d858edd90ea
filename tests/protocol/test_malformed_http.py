"""What is no sound HTTP: refused with 400 and the end of the connection, before anything of ours looks at it
(security.md H01, H03, H15, H17, H29)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from structlog.testing import capture_logs

from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.program import serving
from tests.protocol.talk import Client, all_said, modern_headers, modern_request, status_of
from tests.tables import each_row

PORTS = each("port", ["port", "admin_port"])
CANARY = b"canary"
BODY = json.dumps({"name": "add", "arguments": {"a": 2, "b": 3}}).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
NEXT = b"GET /mcp/tools/list HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def head(version: str, *lines: str, path: str = "/mcp/tools/invoke") -> bytes:
    fields = "\r\n".join(("Host: 127.0.0.1", "Content-Type: application/json", *lines))
    return f"POST {path} HTTP/{version}\r\n{fields}\r\n\r\n".encode()


LENGTH = f"Content-Length: {len(BODY)}"
AMBIGUOUS = {
    "chunked 1.0": head("1.0", "Transfer-Encoding: chunked") + CHUNKED,
    "kept alive": head("1.0", "Transfer-Encoding: chunked", "Connection: keep-alive") + CHUNKED,
    "2.0": head("2.0", LENGTH) + BODY,
    "0.9": head("0.9", LENGTH) + BODY,
    "twice identity": head("1.1", "Content-Encoding: identity", "Content-Encoding: identity", LENGTH) + BODY,
    "identity and gzip": head("1.1", "Content-Encoding: identity", "Content-Encoding: gzip", LENGTH) + BODY,
    "twice gzip": head("1.1", "Content-Encoding: gzip", "Content-Encoding: gzip", LENGTH) + BODY,
}
UNREADABLE = {
    "no request line": CANARY + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00" + CANARY + b"\r\n\r\n",
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "3.0": b"GET /" + CANARY + b" HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + CANARY + b"\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \x00" + CANARY + b"\r\n\r\n",
    "long target": b"GET /" + CANARY * 2000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "long header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + CANARY * 2000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: canary\r\n" * 200 + b"\r\n",
    "two bytes a letter": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + "ä".encode() * 8000 + b"\r\n\r\n",
    "0.9, and the version in a header": b"GET /mcp?canary=\r\nHost: HTTP/1.1\r\n\r\n",
    "0.9, and LF alone": b"GET /mcp?canary=\nHost: HTTP/1.1\r\n\r\n",
    "no URL": b"GET http://[" + CANARY + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "length and chunked": head("1.1", LENGTH, "Transfer-Encoding: chunked") + CANARY,
    "unknown transfer coding": head("1.1", "Transfer-Encoding: canary") + CANARY,
    "no chunk": head("1.1", "Transfer-Encoding: chunked") + b"canary\r\n\r\n",
    "RTSP": b"GET /canary RTSP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
    "ICE": b"SOURCE /canary ICE/1.0\r\nHost: 127.0.0.1\r\n\r\n",
    "two blanks before the target": b"GET  /canary HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "two blanks behind the target": b"GET /canary  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "fragment": b"GET /mcp#canary HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "another scheme": b"GET ftp://127.0.0.1/canary HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "userinfo": b"GET http://canary@127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a line that ends with LF alone": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\nX: canary\r\n",
    "the beginning of TLS": b"\x16\x03\x01" + CANARY,
}


def refused(raw: bytes) -> Any:
    """The error of a 400 that says nothing more about our software, nor repeats what it was sent."""
    assert status_of(raw) == 400
    top, _, body = raw.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in top.splitlines()[1:])
    assert fields[b"content-type"] == b"application/json"
    assert fields[b"connection"] == b"close"
    assert fields[b"cache-control"] == b"no-store"
    assert fields[b"server"] == b"gateway"
    assert b"canary" not in raw.lower()
    assert len(body) == int(fields[b"content-length"])
    return json.loads(body)["error"]


@PORTS
@each("sent", AMBIGUOUS)
async def test_what_readers_may_read_differently_is_400_and_the_end(
    gateway: Server, backend: ScriptedBackend, sent: bytes, port: str
) -> None:
    """RFC 9112 §6.1 for HTTP/1.0; whatever is behind it on the connection is not read as a request."""
    raw = await all_said(getattr(gateway, port), sent)
    assert refused(raw)["code"] == "malformed_http"
    assert b"HTTP/2.0" not in raw
    followed = await all_said(getattr(gateway, port), sent + NEXT)
    refused(followed)
    assert followed.count(b"\r\n\r\n") == 1
    assert backend.requests == []


@PORTS
@each("sent", UNREADABLE)
async def test_what_the_parser_refuses_is_answered_in_json_that_repeats_nothing(
    gateway: Server, backend: ScriptedBackend, sent: bytes, port: str
) -> None:
    error = refused(await all_said(getattr(gateway, port), sent))
    assert error["code"] == 400
    assert backend.requests == []


@each_row
async def test_a_refusal_speaks_the_language_of_its_path(
    gateway: Server, path: str, code: int | str, members: dict[str, None] | None
) -> None:
    """It comes before the path has led to a route."""
    raw = await all_said(gateway.port, head("2.0", LENGTH, path=path) + BODY)
    error = refused(raw)
    assert error == {"code": code, "message": "Only HTTP/1.1 and HTTP/1.0 are served"}
    beside = {} if members is None else {"jsonrpc": "2.0", **members}
    assert json.loads(raw.partition(b"\r\n\r\n")[2]) == {"error": error, **beside}


async def test_http_1_0_is_served(gateway: Server, backend: ScriptedBackend) -> None:
    """nginx speaks it to what is behind it unless told otherwise."""
    raw = await all_said(gateway.port, head("1.0", LENGTH) + BODY)
    assert status_of(raw) == 200
    assert raw.endswith(b'{"result":{"sum":5}}')
    assert backend.calls("add") == 1


@PORTS
async def test_an_expectation_that_nobody_knows_is_417_and_not_repeated(
    gateway: Server, backend: ScriptedBackend, port: str
) -> None:
    """H17, RFC 9110 §10.1.1."""
    sent = NEXT.replace(b"\r\n\r\n", b"\r\nExpect: canary\r\nConnection: close\r\n\r\n")
    raw = await all_said(getattr(gateway, port), sent)
    assert status_of(raw) == 417
    assert b"canary" not in raw
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == "expectation_failed"
    assert backend.requests == []


@each(
    ("verb", "path"),
    [("GET", "/mcp/tools/list"), ("GET", "/nope"), ("PUT", "/mcp"), ("POST", "/mcp"), ("OPTIONS", "/mcp")],
)
async def test_an_answer_names_the_server_software_without_its_version(client: Client, verb: str, path: str) -> None:
    """RFC 9110 §10.2.4: details help attackers."""
    assert (await client.send(verb, path)).headers.getall("Server") == ["gateway"]


@each("path", ["/livez", "/readyz", "/nope"])
async def test_an_answer_of_the_admin_port_names_the_server_software_without_its_version(
    gateway: Server, path: str
) -> None:
    raw = await all_said(gateway.admin_port, f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    assert raw.lower().count(b"\r\nserver: ") == raw.count(b"\r\nServer: gateway\r\n") == 1


async def test_a_stream_names_the_server_software_without_its_version(client: Client) -> None:
    params = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": {"progressToken": "p"}}
    headers = modern_headers("tools/call", "add") | {"Accept": "application/json, text/event-stream"}
    async with client.request(
        "POST", "/mcp", json.dumps(modern_request("tools/call", params)).encode(), {**headers, **JSON_TYPE}
    ) as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers.getall("Server") == ["gateway"]


JSON_TYPE = {"Content-Type": "application/json"}
FLOOD = [
    b"canary\r\n\r\n",
    head("2.0", LENGTH) + BODY,
    head("1.0", "Transfer-Encoding: chunked") + CHUNKED,
]


async def test_a_flood_of_malformed_requests_leaves_a_few_lines_in_the_log(backend: ScriptedBackend) -> None:
    async with serving(backend.url) as (program, gateway):
        port = int(gateway.base.rpartition(":")[2])
        for sent in FLOOD * 25:
            await all_said(port, sent)
        await gateway.call("rest", "echo", {"value": "the last"})
        await program.said('"tool":"echo"')
        assert "malformed HTTP refused" in program.output
        assert sum('"level":"info"' not in line for line in program.lines) < 10
        assert "HTTP/1.0 has no Transfer-Encoding" in program.output
        assert "The request is not HTTP/1.1" in program.output
        assert "Traceback" not in program.output


@by_hand
async def test_an_idle_connection_is_closed_after_75_seconds(clock: Clock) -> None:
    """aiohttp's own is an hour, which it falls back to where it does not know one of its arguments."""
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        assert gateway.gateway is not None
        for port in (gateway.gateway.port, gateway.gateway.admin_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await clock.moves_on(74)
            assert not reader.at_eof()
            await clock.moves_on(2)
            await reader.read()
            assert reader.at_eof()
            writer.close()


async def test_an_upgrade_with_a_coding_that_is_no_text_is_refused_without_a_traceback(gateway: Server) -> None:
    """A line of log in ten seconds, however many come."""
    lines = "Host: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked"
    with capture_logs() as logged:
        for _ in range(20):
            raw = await all_said(gateway.port, f"POST /mcp HTTP/1.1\r\n{lines}".encode() + b"\x85\r\n\r\n0\r\n\r\n")
            assert status_of(raw) == 400
    assert [line["event"] for line in logged] == ["malformed HTTP refused"]
