"""What every client makes of answers that are allowed, or common, and rarely seen."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import pytest

from gateway.http_client.choice import HttpClient
from gateway.http_client.lean import LeanTransport
from gateway.http_client.lean_connection import MAX_HEAD
from gateway.http_client.response import (
    Answer,
    AnswerTooLarge,
    BadHttp,
    Interrupted,
    OutboundError,
)
from gateway.http_client.session import Outbound
from tests.contract.http_clients import CALL
from tests.each import each
from tests.fault.behaviours import SUM, Body, Raw
from tests.fault.scripted import ScriptedBackend

MOST: Final = 1000
OK: Final = b"HTTP/1.1 200 OK\r\n"
LENGTH: Final = b"Content-Length: 2\r\n\r\nok"
_DEFLATE: Final = zlib.compressobj(wbits=-zlib.MAX_WBITS)
RAW_DEFLATE: Final = _DEFLATE.compress(b"ok") + _DEFLATE.flush()


def compressed(coding: str, body: bytes) -> bytes:
    head = f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return OK + head.encode() + body


READ: Final = {
    "an interim answer before it": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK + LENGTH,
    "several interim answers": b"HTTP/1.1 102 Processing\r\n\r\n" * 3 + OK + LENGTH,
    "lines that end with LF alone": (OK + LENGTH).replace(b"\r\n", b"\n"),
    "no reason phrase": b"HTTP/1.1 200\r\n" + LENGTH,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + LENGTH,
    "a body to the end of the connection": OK + b"\r\nok",
    "chunks with extensions and trailers": OK
    + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\no\r\n1\r\nk\r\n0\r\nX-Sum: 1\r\n\r\n",
    "gzip": compressed("gzip", gzip.compress(b"ok")),
    "deflate": compressed("deflate", zlib.compress(b"ok")),
    "deflate without its header": compressed("deflate", RAW_DEFLATE),
    "an encoding that is none": compressed("identity", b"ok"),
}
FAILS: Final[dict[str, tuple[bytes, type[OutboundError]]]] = {
    "a protocol that nobody asked for": (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        BadHttp,
    ),
    "nothing after an interim answer": (b"HTTP/1.1 103 Early Hints\r\n\r\n", Interrupted),
    "a length that is none": (OK + b"Content-Length: two\r\n\r\nok", BadHttp),
    "a negative length": (OK + b"Content-Length: -2\r\n\r\nok", BadHttp),
    "a chunk whose size is none": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n", BadHttp),
    "a chunk of more than all": (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\nok\r\n", BadHttp),
    "a head without end": (OK + b"X-A: b\r\n" * (MAX_HEAD // 8), BadHttp),
    "gzip that inflates": (compressed("gzip", gzip.compress(b"x" * 1001)), AnswerTooLarge),
    "deflate that inflates": (compressed("deflate", zlib.compress(b"x" * 1001)), AnswerTooLarge),
}


async def post(client: HttpClient, backend: ScriptedBackend) -> Answer:
    return await client.request("POST", backend.url, CALL, {}, timeout=10, max_bytes=MOST)


@each("name", [*READ])
async def test_an_odd_answer_is_read(client: HttpClient, backend: ScriptedBackend, name: str) -> None:
    backend.default = Raw(READ[name])
    answer = await post(client, backend)
    assert (answer.status, answer.body) == (200, b"ok")


@each("name", [*FAILS])
async def test_a_bad_answer_is_a_failure_of_its_kind_and_the_next_exchange_is_good(
    client: HttpClient, backend: ScriptedBackend, name: str
) -> None:
    raw, kind = FAILS[name]
    backend.default = Raw(raw)
    with pytest.raises(kind):
        await post(client, backend)
    backend.default = SUM
    assert (await post(client, backend)).status == 200


@each(("name", "value"), (("X-A", "a\r\nX-B: b"), ("X-A", "a\nb"), ("X-A\r\nX-B", "b")))
async def test_a_header_that_would_break_the_head_is_not_sent(
    client: HttpClient, backend: ScriptedBackend, name: str, value: str
) -> None:
    with pytest.raises(BadHttp):
        await client.request("POST", backend.url, CALL, {name: value}, timeout=10, max_bytes=MOST)
    assert backend.requests == []


async def test_a_header_of_a_request_takes_the_place_of_the_common_one(backend: ScriptedBackend) -> None:
    common = {"Accept": "application/json", "X-Common": "yes"}
    for client in (Outbound(headers=common), LeanTransport(headers=common)):
        own = {"accept": "text/plain", "X-Own": "yes"}
        await client.request("POST", backend.url, CALL, own, timeout=10, max_bytes=MOST)
        await client.close()
        headers = backend.requests.pop().headers
        assert headers.getall("Accept") == ["text/plain"]
        assert (headers["X-Common"], headers["X-Own"]) == ("yes", "yes")


async def test_members_of_a_gzip_body_are_all_read(backend: ScriptedBackend) -> None:
    client = LeanTransport()
    members = gzip.compress(b"o") + gzip.compress(b"k")
    backend.default = Body(members, headers=(("Content-Encoding", "gzip"),))
    assert (await post(client, backend)).body == b"ok"
    await client.close()


async def test_a_gzip_body_of_very_many_members_is_refused(backend: ScriptedBackend) -> None:
    """The rest of the body is copied for each of them: megabytes of them would hold up the loop for minutes."""
    client = LeanTransport()
    backend.default = Body(gzip.compress(b"") * 101, headers=(("Content-Encoding", "gzip"),))
    with pytest.raises(BadHttp, match="too many members"):
        await client.request("POST", backend.url, CALL, {}, timeout=10, max_bytes=100_000)
    await client.close()


CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_trailers_do_not_change_the_head(backend: ScriptedBackend) -> None:
    client = LeanTransport()
    backend.default = Raw(CHUNKED + b"2\r\nok\r\n0\r\nContent-Encoding: gzip\r\nRetry-After: 9\r\n\r\n")
    answer = await post(client, backend)
    assert (answer.body, [*answer.headers]) == (b"ok", ["Transfer-Encoding"])
    await client.close()


@each("line", (b"X-A: b\r\n", b"X-A: " + b"b" * 1000, b"0" * 1000))
async def test_what_comes_behind_the_body_is_bounded(backend: ScriptedBackend, line: bytes) -> None:
    """``max_bytes`` does not count trailers, nor lines without an end."""
    client = LeanTransport()
    backend.default = Raw(CHUNKED + b"2\r\nok\r\n0\r\n" + line * (16 * MAX_HEAD // len(line)) + b"\r\n\r\n")
    with pytest.raises(BadHttp):
        await post(client, backend)
    await client.close()
