"""The public port over TLS: what a client may cost before and after the handshake, and what a plain port does, too."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from structlog.testing import capture_logs

from gateway.process.server import Server
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.program import serving
from tests.protocol.conftest import Start
from tests.protocol.talk import modern_headers, modern_request, status_of
from tests.protocol.test_connections import HEAD
from tests.protocol.test_half_closed import CONTINUE, STREAMED, SURFACES, check_sum, posted, written
from tests.protocol.test_left_bodies import UNTAKEN
from tests.protocol.test_pipelining import A_CALL_IN, REQUESTS, answered, sent
from tests.protocol.test_slow_clients import CALL, KERNELS, MIB
from tests.protocol.watched import Watched
from tests.tls import Authority
from tests.tls_client import TlsClient
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def knobs(authority: Authority) -> tuple[str, str]:
    pem = authority.server_pem("127.0.0.1")
    return f"server.tls.cert_file={pem}", f"server.tls.key_file={pem}"


@pytest.fixture
async def tls_gateway(start: Start, knobs: tuple[str, str]) -> Server:
    return await start(*knobs, "limits.discovery=100000/minute")


@pytest.fixture(params=["asyncio", "uvloop"])
async def tls_port(
    request: pytest.FixtureRequest, backend: ScriptedBackend, knobs: tuple[str, str]
) -> AsyncIterator[int]:
    """The port of a gateway in this process, then of the program itself, which is on uvloop."""
    more = (*knobs, "limits.discovery=100000/minute")
    async with AsyncExitStack() as stack:
        if request.param == "uvloop":
            _, gateway = await stack.enter_async_context(serving(backend.url, *more))
        else:
            gateway = await stack.enter_async_context(front(backend.url, *more))
        backend.requests.clear()
        yield int(gateway.base.rpartition(":")[2])


@pytest.fixture
def watched(backend: ScriptedBackend) -> Watched:
    watched = Watched()
    backend.on("add", watched)
    return watched


@asynccontextmanager
async def by_hand_tls(*more: str) -> AsyncIterator[tuple[Server, ScriptedBackend, Path]]:
    """A gateway with TLS in a loop whose clock a test moves."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        authority = Authority(folder)
        pem = authority.server_pem("127.0.0.1")
        backend = await stack.enter_async_context(ScriptedBackend())
        tls = (f"server.tls.cert_file={pem}", f"server.tls.key_file={pem}")
        gateway = (await stack.enter_async_context(front(backend.url, *tls, *more))).gateway
        assert gateway is not None
        yield gateway, backend, authority.file


@asynccontextmanager
async def connected(port: int, authority: Path, address: str = "127.0.0.1") -> AsyncIterator[TlsClient]:
    async with asyncio.timeout(PATIENCE), TlsClient(port, authority, address) as client:
        await client.shake_hands()
        yield client


def connections(gateway: Server | None) -> float:
    assert gateway is not None
    (count,) = gateway.figures()[0]["mcp_gateway_connections_open",]
    return count


# As on a plain port.


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_client_that_sends_no_more_may_wait_for_its_answer(
    tls_port: int, authority: Authority, watched: Watched, surface: str
) -> None:
    async with connected(tls_port, authority.file) as client:
        client.write(written(surface))
        client.write_eof()
        await watched.begun()
        watched.release()
        check_sum((await client.reader.read()).replace(CONTINUE, b""))
        assert client.said_end, "a response that was cut must not look whole (RFC 8446 §6.1)"


async def test_a_client_that_only_says_its_end_may_wait_for_its_answer(
    tls_port: int, authority: Authority, watched: Watched
) -> None:
    async with connected(tls_port, authority.file) as client:
        client.write(written("invoke"))
        client.say_end()
        await watched.begun()
        watched.release()
        check_sum((await client.reader.read()).replace(CONTINUE, b""))


async def test_a_call_whose_client_is_gone_is_let_go(tls_port: int, authority: Authority, watched: Watched) -> None:
    async with connected(tls_port, authority.file) as client:
        client.write(written("invoke"))
        await watched.begun()
        client.say_end()
        client.raw_writer.close()
        assert await watched.over() == "abandoned"


async def test_a_stream_ends_with_its_clients_word(tls_port: int, authority: Authority, watched: Watched) -> None:
    async with connected(tls_port, authority.file) as client:
        client.write(posted("/mcp", modern_request("tools/call", STREAMED), modern_headers("tools/call", "add")))
        assert b"text/event-stream" in await client.reader.readuntil(b"\r\n\r\n")
        await watched.begun()
        client.say_end()
        assert await watched.over() == "abandoned"


async def test_a_thousand_pipelined_requests_are_answered_in_their_order(tls_port: int, authority: Authority) -> None:
    async with connected(tls_port, authority.file) as client:
        client.write(b"".join(map(sent, range(REQUESTS))))
        answers = [await answered(client.reader) for _ in range(REQUESTS)]
    calls = range(0, REQUESTS, A_CALL_IN)
    assert [answers[number] for number in calls] == [{"result": number} for number in calls]
    assert all(answers[number].keys() == {"tool"} for number in range(REQUESTS) if number % A_CALL_IN)


async def test_a_request_of_which_each_byte_is_a_record_is_answered(tls_port: int, authority: Authority) -> None:
    async with connected(tls_port, authority.file) as client:
        raw = written("invoke")
        client.raw_writer.write(b"".join(client.encrypted(raw[n : n + 1]) for n in range(len(raw))))
        assert b'"sum":5' in await client.reader.readuntil(b"}}")


async def test_large_bodies_and_large_answers_go_through(tls_port: int, authority: Authority) -> None:
    text = b"x" * (MIB // 2)
    body = b'{"name":"echo","arguments":{"value":"%b"}}' % text
    async with connected(tls_port, authority.file) as client:
        for _ in range(3):
            client.write(HEAD % (b"1.1", len(body)) + b"\r\n" + body)
            raw = await client.reader.readuntil(b'"}')
            assert status_of(raw) == 200
            assert text in raw


@each("kind", [*UNTAKEN])
async def test_a_request_is_answered_behind_a_body_that_nobody_took(
    tls_port: int, authority: Authority, kind: str
) -> None:
    raw, status = UNTAKEN[kind]
    async with connected(tls_port, authority.file) as client:
        client.write(raw)
        assert status_of(await client.reader.readuntil(b"\r\n\r\n")) == status


async def test_malformed_http_is_refused_and_the_refusal_is_read_to_its_end(
    tls_port: int, authority: Authority
) -> None:
    """The client still sends. Closing at once would reset the connection, and the refusal with it."""
    async with connected(tls_port, authority.file) as client:
        client.write(b"GET / HTTP/1.1\r\nno colon\r\n\r\n" + b"x" * 2 * MIB)
        raw = await client.reader.read()
        assert status_of(raw) == 400
        assert client.said_end


def test_who_does_not_take_its_answer_is_counted_and_cut_off_after_the_write_timeout() -> None:
    size = 4 * MIB

    @by_hand
    async def cut(clock: Clock) -> None:
        async with (
            by_hand_tls("server.write_timeout=30s") as (gateway, backend, authority),
            TlsClient(gateway.port, authority) as client,
        ):
            await client.shake_hands()
            backend.on("echo", result({"echo": "x" * size}))
            client.stop_reading()
            client.write(CALL)
            await backend.called("echo")
            await clock.until(lambda: gateway.held.bytes > size - KERNELS)
            await clock.moves_on(29.5)
            assert gateway.held.bytes > 0
            with capture_logs() as lines:
                await clock.moves_on(1)
            assert gateway.held.bytes == 0
            (line,) = (line for line in lines if line["event"] == "connection cut")
            assert line["bytes"] > size - KERNELS

    cut()


# Before the handshake is over.


@each("kind", ["nothing", "a byte", "half a hello", "a byte a second", "a whole handshake"])
def test_a_client_that_is_slow_with_its_handshake_or_its_head_is_gone_after_ten_seconds(kind: str) -> None:
    @by_hand
    async def gone(clock: Clock) -> None:
        async with by_hand_tls() as (gateway, _, authority), TlsClient(gateway.port, authority) as client:
            hello = client.hello()
            if kind == "a whole handshake":
                client = await stack_client(gateway.port, authority)
            first = {"nothing": b"", "a byte": hello[:1], "half a hello": hello[: len(hello) // 2]}
            client.raw_writer.write(first.get(kind, b""))
            for second in range(9):
                if kind == "a byte a second":
                    client.raw_writer.write(hello[second : second + 1])
                await clock.moves_on(1.05)
            assert not client.raw.at_eof()
            assert connections(gateway)
            await clock.moves_on(0.8)
            await clock.until(lambda: not connections(gateway))
            client.raw_writer.transport.abort()

    async def stack_client(port: int, authority: Path) -> TlsClient:
        client = await TlsClient(port, authority).__aenter__()
        await client.shake_hands()
        return client

    gone()


async def test_clients_that_do_not_shake_hands_have_places_like_all_others(
    start: Start, authority: Authority, knobs: tuple[str, str]
) -> None:
    """An address has a quarter of them; one more is closed."""
    gateway = await start(*knobs, "server.max_connections=8")
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(TlsClient(gateway.port, authority.file))
        third = await stack.enter_async_context(TlsClient(gateway.port, authority.file))
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ConnectionError):
                await third.shake_hands()
            other = await stack.enter_async_context(TlsClient(gateway.port, authority.file, "127.0.0.2"))
            await other.shake_hands()


async def test_clients_that_do_not_shake_hands_give_way_to_another_network(
    start: Start, authority: Authority, knobs: tuple[str, str]
) -> None:
    gateway = await start(*knobs, "server.max_connections=16")
    addresses = ["127.0.0.2"] * 4 + ["127.0.0.3"] * 4 + [f"127.0.0.{number}" for number in range(4, 12)]
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        for address in addresses:
            await stack.enter_async_context(TlsClient(gateway.port, authority.file, address))
        await until(lambda: connections(gateway) == len(addresses))
        last = await stack.enter_async_context(TlsClient(gateway.port, authority.file, "127.0.0.12"))
        await last.shake_hands()
        assert connections(gateway) == len(addresses)


async def test_a_port_that_closes_does_not_wait_for_handshakes(
    backend: ScriptedBackend, authority: Authority, knobs: tuple[str, str]
) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        async with front(backend.url, *knobs) as gateway:
            silent = await stack.enter_async_context(TlsClient(gateway.port, authority.file))
            silent.raw_writer.write(silent.hello()[:20])
            assert gateway.gateway is not None
            await until(lambda: connections(gateway.gateway))
        assert await silent.raw.read() == b""


# What is spoken.


async def test_http_on_the_port_of_https_is_told_so(tls_port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", tls_port)
    writer.write(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        raw = await reader.read()
    writer.close()
    assert status_of(raw) == 400
    assert b"write https://" in raw


@each("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_1_2_and_1_3_are_spoken_with_http_1_1_alone(
    tls_port: int, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with asyncio.timeout(PATIENCE), TlsClient(tls_port, authority.file, context=context) as client:
        await client.shake_hands()
        assert client.tls.selected_alpn_protocol() == "http/1.1"
        client.write(written("invoke"))
        assert b'"sum":5' in await client.reader.readuntil(b"}}")


async def test_older_versions_are_refused_and_the_log_says_so(tls_gateway: Server, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with capture_logs() as lines:
        async with asyncio.timeout(PATIENCE), TlsClient(tls_gateway.port, authority.file, context=context) as client:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await client.shake_hands()
    (line,) = (line for line in lines if line["event"] == "malformed HTTP refused")
    assert line["reason"] == "unsupported protocol"


@each("tail", [b"\0" * 64, b"\x16\x03\x01\xff\xff" + b"\0" * 40, b"\x15\x03\x03\0\2\2\x28"])
async def test_garbage_ends_one_connection_and_no_other(tls_port: int, authority: Authority, tail: bytes) -> None:
    async with connected(tls_port, authority.file) as honest:
        for shakes in (False, True):
            async with TlsClient(tls_port, authority.file) as client:
                if shakes:
                    await client.shake_hands()
                client.raw_writer.write(tail)
                with_end = client.reader if shakes else client.raw
                if not tail.startswith(b"\x16"):
                    await with_end.read()
        honest.write(written("invoke"))
        assert b'"sum":5' in await honest.reader.readuntil(b"}}")
