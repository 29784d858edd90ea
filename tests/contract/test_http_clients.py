"""The contract of every HTTP client (:class:`gateway.http_client.choice.HttpClient`)."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

import pytest

from gateway.http_client.choice import HttpClient
from gateway.http_client.digest import HttpDigest, Lanes
from gateway.http_client.response import (
    Answer,
    AnswerTooLarge,
    BadHttp,
    ConnectFailed,
    DeadlinePassed,
    Interrupted,
    OutboundError,
)
from gateway.http_client.session import Outbound
from tests.contract.http_clients import CALL, HTTP_CLIENTS, Make
from tests.each import each
from tests.fault.behaviours import (
    CLOSE,
    SUM,
    Behaviour,
    Body,
    Cut,
    GzipBomb,
    Hang,
    InTurn,
    Raw,
    Redirect,
    Stream,
    result,
)
from tests.fault.scripted import ScriptedBackend
from tests.waiting import PATIENCE

ALL: Final[dict[str, Make]] = HTTP_CLIENTS | {
    "Lanes": lambda: Lanes(lambda: Outbound(connections=1, middlewares=(HttpDigest("gw", "sesame-opens"),))),
}
HEADERS: Final = {"Content-Type": "application/json", "X-Own": "yes"}
MIB: Final = 1024 * 1024


@pytest.fixture(params=ALL.values(), ids=ALL.keys())
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


async def post(client: HttpClient, url: str, *, timeout: float = 10, max_bytes: int = MIB) -> Answer:
    return await client.request("POST", url, CALL, HEADERS, timeout=timeout, max_bytes=max_bytes)


async def fails(client: HttpClient, url: str, kind: type[OutboundError], **bounds: float) -> OutboundError:
    with pytest.raises(kind) as caught:
        await post(client, url, **bounds)  # type: ignore[arg-type]
    assert type(caught.value) is kind
    return caught.value


# --- the exchange ---------------------------------------------------------------------------------------------


async def test_a_post_carries_the_body_and_brings_the_answer(client: HttpClient, backend: ScriptedBackend) -> None:
    answer = await post(client, backend.url)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.body == SUM.payload.replace(b"@ID@", b'"7"')
    (request,) = backend.requests
    assert (request.verb, request.path, request.body) == ("POST", "/jsonrpc", CALL)
    assert request.headers["X-Own"] == "yes"


async def test_a_get_asks_without_a_body_and_any_status_is_an_answer(
    client: HttpClient, backend: ScriptedBackend
) -> None:
    answer = await client.request("GET", f"{backend.url}/openrpc.json?a=b%20c", b"", HEADERS, timeout=10, max_bytes=MIB)
    assert answer.status == 404
    (request,) = backend.requests
    assert (request.verb, request.path, request.body) == ("GET", "/jsonrpc/openrpc.json?a=b%20c", b"")


async def test_nothing_is_said_that_was_not_asked_for(client: HttpClient, backend: ScriptedBackend) -> None:
    await post(client, backend.url)
    said = {name.lower() for name in backend.requests[0].headers}
    assert said <= {"host", "content-type", "content-length", "x-own", "accept", "accept-encoding", "connection"}


@each("status", [200, 204, 400, 401, 404, 500, 503, 599])
async def test_an_error_status_is_an_answer_too(client: HttpClient, backend: ScriptedBackend, status: int) -> None:
    backend.default = Body(b"" if status == 204 else b"text", status, "Text/HTML; charset=utf-8")
    answer = await post(client, backend.url)
    assert (answer.status, answer.content_type) == (status, "text/html")


async def test_an_answer_without_a_content_type_has_none(client: HttpClient, backend: ScriptedBackend) -> None:
    backend.default = Body(b"{}", content_type=None, headers=(("Retry-After", "5"),))
    answer = await post(client, backend.url)
    assert (answer.content_type, answer.headers["retry-after"]) == ("", "5")


async def test_a_compressed_answer_is_decompressed(client: HttpClient, backend: ScriptedBackend) -> None:
    backend.default = Body(gzip.compress(b'{"x":1}'), headers=(("Content-Encoding", "gzip"),))
    assert (await post(client, backend.url)).body == b'{"x":1}'


async def test_exchanges_share_connections(client: HttpClient, backend: ScriptedBackend) -> None:
    for _ in range(5):
        await post(client, backend.url)
    assert backend.connections == 1


# --- what must not happen -------------------------------------------------------------------------------------


@each("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_not_followed(
    client: HttpClient, backend: ScriptedBackend, status: int
) -> None:
    backend.default = Redirect(status)
    assert (await post(client, backend.url)).status == status
    assert backend.other.connections == 0


async def test_cookies_are_not_kept(client: HttpClient, backend: ScriptedBackend) -> None:
    backend.default = result({"sum": 5}, headers=(("Set-Cookie", "session=1; Path=/"),))
    await post(client, backend.url)
    await post(client, backend.url)
    assert all("Cookie" not in request.headers for request in backend.requests)


async def test_the_environments_proxies_are_ignored(backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{backend.other.port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for make in HTTP_CLIENTS.values():
        client = make()
        assert (await post(client, backend.url)).status == 200
        await client.close()
    assert backend.other.connections == 0


async def test_a_call_on_a_connection_that_died_is_not_sent_again(client: HttpClient, backend: ScriptedBackend) -> None:
    backend.default = InTurn((SUM, CLOSE, SUM))
    await post(client, backend.url)
    await fails(client, backend.url, Interrupted)
    assert backend.calls("add") == 2


# --- caps and deadlines ---------------------------------------------------------------------------------------


@each("chunked", [False, True])
async def test_an_answer_may_fill_its_cap_and_not_exceed_it(
    client: HttpClient, backend: ScriptedBackend, chunked: bool
) -> None:
    backend.default = Body(b"x" * 5000, chunked=chunked)
    assert len((await post(client, backend.url, max_bytes=5000)).body) == 5000
    await fails(client, backend.url, AnswerTooLarge, max_bytes=4999)


HUGE = {"announced": Stream(64 * MIB), "chunked": Stream(64 * MIB, chunked=True), "compressed": GzipBomb(64 * MIB)}


@each("behaviour", HUGE)
async def test_of_an_answer_that_is_too_large_little_is_read(
    client: HttpClient, backend: ScriptedBackend, behaviour: Behaviour
) -> None:
    backend.default = behaviour
    await fails(client, backend.url, AnswerTooLarge)
    assert backend.bytes_sent < 32 * MIB
    backend.default = SUM
    assert (await post(client, backend.url)).status == 200


@pytest.mark.parametrize("extent", ["nothing", "head", "half"])
async def test_the_deadline_holds_for_the_whole_exchange(
    client: HttpClient, backend: ScriptedBackend, extent: str
) -> None:
    backend.default = Hang(extent)  # type: ignore[arg-type]
    failure = await fails(client, backend.url, DeadlinePassed, timeout=0.5)
    assert failure.sent
    async with asyncio.timeout(PATIENCE):
        await backend.abandoned.wait()


async def test_a_cancelled_exchange_hangs_up(client: HttpClient, backend: ScriptedBackend) -> None:
    backend.default = Hang("half")
    exchange = asyncio.create_task(post(client, backend.url))
    async with asyncio.timeout(PATIENCE):
        await backend.called("add")
        exchange.cancel()
        await backend.abandoned.wait()
    await asyncio.wait([exchange])
    assert exchange.cancelled()


# --- failures -------------------------------------------------------------------------------------------------


async def test_a_refused_connection_says_that_nothing_was_sent(client: HttpClient, backend: ScriptedBackend) -> None:
    failure = await fails(client, backend.refused_url, ConnectFailed)
    assert not failure.sent
    assert str(failure) == "connection refused"


async def test_a_name_that_no_resolver_knows_is_no_connection(client: HttpClient) -> None:
    failure = await fails(client, "http://backend.invalid/jsonrpc", ConnectFailed)
    assert not failure.sent
    assert "invalid" not in str(failure)


async def test_a_service_without_tls_is_not_spoken_to_in_the_clear(
    client: HttpClient, backend: ScriptedBackend
) -> None:
    failure = await fails(client, backend.url.replace("http:", "https:"), ConnectFailed)
    assert not failure.sent
    assert backend.requests == []


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json"
FAILURES: Final[dict[str, tuple[Behaviour, type[OutboundError]]]] = {
    "closed before the answer": (CLOSE, Interrupted),
    "reset before the answer": (Cut("nothing", "reset"), Interrupted),
    "reset after the head": (Cut("head", "reset"), Interrupted),
    "reset in the body": (Cut("half", "reset"), Interrupted),
    "a body shorter than announced": (Cut("half"), Interrupted),
    "a truncated chunk": (Cut("half", answer=result({"sum": 5}, chunked=True)), Interrupted),
    "a truncated head": (Raw(_HEAD), Interrupted),
    "garbage": (Raw(b"\x00\xff\x16\x03 no HTTP at all \r\n\r\n"), BadHttp),
    "a length and chunks": (
        Raw(_HEAD + b"\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        BadHttp,
    ),
    "two lengths": (Raw(_HEAD + b"\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n12345"), BadHttp),
    "a header line without end": (result({}, headers=(("X-Long", "a" * 9000),)), BadHttp),
    "a status below all": (result({}, status=99), BadHttp),
    "a status above all": (result({}, status=999), BadHttp),
    "a compressed body that is none": (Body(b"plain", headers=(("Content-Encoding", "gzip"),)), BadHttp),
}


@pytest.mark.parametrize(("behaviour", "kind"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_failure_after_something_was_sent_is_of_its_kind_and_names_no_host(
    client: HttpClient, backend: ScriptedBackend, behaviour: Behaviour, kind: type[OutboundError]
) -> None:
    backend.default = behaviour
    failure = await fails(client, backend.url, kind)
    assert failure.sent
    assert "127.0.0.1" not in str(failure)
    assert str(backend.port) not in str(failure)
    assert backend.calls("add") == 1
    backend.default = SUM
    assert (await post(client, backend.url)).status == 200


@each("url", ["", "/jsonrpc", "http://", "ftp://127.0.0.1/", "http://[::1", "http://127.0.0.1:99999/"])
async def test_an_address_that_is_none_is_a_failure_like_others(client: HttpClient, url: str) -> None:
    with pytest.raises(OutboundError):
        await post(client, url)
