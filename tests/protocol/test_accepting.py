"""Many connections: how many a port takes, what it does with the rest, and when no descriptors are left."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress

import uvloop
from structlog.testing import capture_logs

from gateway.errors import GatewayError
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import TEXT, Response
from gateway.web.admin import ADMIN_BEYOND, ADMIN_CONNECTIONS
from gateway.web.exchange import raw_refusal
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, serving, settings
from tests.protocol.bounds import listen
from tests.protocol.conftest import Start
from tests.protocol.talk import exchange, status_of
from tests.protocol.test_many_streams import ready_for
from tests.protocol.test_slow_clients import PING, Slow, by_hand_front, client
from tests.waiting import PATIENCE, until

LIVE = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
AT_ONCE = 2000
LOOPS = [asyncio.SelectorEventLoop, uvloop.new_event_loop]


async def opened(stack: AsyncExitStack, port: int, count: int, address: str = "127.0.0.1") -> list[Slow]:
    return [await stack.enter_async_context(client(port, address)) for _ in range(count)]


async def refused(port: int, address: str = "127.0.0.1") -> bytes:
    """What a connection is told that sends its request and is not let in."""
    async with client(port, address) as one:
        return await one.rest()


async def test_of_one_address_a_quarter_of_the_connections_is_taken_and_others_get_in(start: Start) -> None:
    gateway = await start("server.max_connections=8")
    with capture_logs() as lines:
        async with AsyncExitStack() as stack:
            await opened(stack, gateway.port, 2)
            for _ in range(3):
                raw = await refused(gateway.port)
                assert status_of(raw) == 503
                assert b"\r\nRetry-After: 1\r\n" in raw
                assert raw.endswith(b'"Too many connections from this address"}}')
            async with client(gateway.port, "127.0.0.2") as other:
                other.write(PING)
                assert status_of(await other.answer()) == 200
    (line,) = (line for line in lines if line["event"] == "connections are refused")
    assert (line["address"], line["most"]) == ("127.0.0.1", 2)
    assert "server.trusted_proxies" in line["remedy"]


@by_hand
async def test_a_trusted_proxy_has_all_connections_and_beyond_them_health_is_told(clock: Clock) -> None:
    knobs = ("server.max_connections=8", "server.trusted_proxies=[127.0.0.0/8]")
    async with by_hand_front(*knobs) as (gateway, _):
        with capture_logs() as lines:
            async with AsyncExitStack() as stack:
                await opened(stack, gateway.port, 8)
                for number in range(5):
                    raw = await refused(gateway.port, f"127.0.0.{number + 1}")
                    assert status_of(raw) == 503
                    assert raw.endswith(b'"Too many connections"}}')
                assert (await exchange(gateway.admin_port, LIVE)).endswith(b"alive\n")
            await clock.until(lambda: any("no longer" in line["event"] for line in lines))
            assert status_of(await exchange(gateway.port, PING)) == 200
        lines = [line for line in lines if line["event"].startswith("connections are")]
        assert [line["event"] for line in lines] == ["connections are refused", "connections are no longer refused"]
        assert lines[1]["refused"] == 5


KEPT = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


async def sent(stack: AsyncExitStack, port: int, count: int, first: bytes, address: str = "127.0.0.1") -> list[Slow]:
    clients = await opened(stack, port, count, address)
    for one in clients:
        one.write(first)
    return clients


async def test_at_the_admin_port_idle_connections_of_any_network_make_room_for_a_probe(start: Start) -> None:
    """Kept ones, and half heads and bodies that are older than a second; one that is under way is not closed."""
    gateway = await start()
    port = gateway.admin_port
    async with AsyncExitStack() as stack:
        kept = await sent(stack, port, 200, KEPT)
        assert {status_of(await one.answer()) for one in kept} == {200}
        for address in ("127.0.0.1", "127.0.0.2", *(f"127.0.9.{number}" for number in range(1, 65))):
            await sent(stack, port, 2, KEPT[:-2] + b"X-", address)
            async with client(port, address) as probing:
                probing.write(LIVE)
                assert (await probing.rest()).endswith(b"alive\n")
        assert [one.reader.at_eof() for one in kept[:100]] == [True] * 100
        assert status_of(await exchange(gateway.port, PING)) == 200


@each("part", {"head": KEPT[:-2], "body": b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"})
def test_a_half_request_at_the_admin_port_has_a_second_for_the_rest(part: bytes) -> None:
    @by_hand
    async def test(clock: Clock) -> None:
        async with by_hand_front() as (gateway, _), AsyncExitStack() as stack:
            halves = await sent(stack, gateway.admin_port, 16, part)
            await clock.settles()
            with capture_logs() as lines:
                late = await sent(stack, gateway.admin_port, 1, part)
                raw = await late[0].answer()
            if part == KEPT[:-2]:
                assert raw.endswith(b'"Too many connections from this address"}}')
                (line,) = (line for line in lines if line["event"] == "connections are refused")
                assert (line["knob"], line["most"]) == ("server.admin_port", 16)
                await clock.moves_on(0.9)
                halves[0].write(b"\r\n")  # which is whole in time
                assert (await halves[0].answer()).endswith(b"alive\n")
                await clock.moves_on(0.2)
                await sent(stack, gateway.admin_port, 3, part)
                assert await halves[1].rest() == b""
                await clock.settles()
                assert not halves[15].reader.at_eof()
            else:
                assert raw.endswith(b"alive\n")  # one that was answered makes room at once

    test()


async def test_who_asks_the_admin_port_for_much_and_reads_nothing_keeps_no_probe_and_no_scrape_out(
    start: Start,
) -> None:
    """Each of them begins as a probe does, which is let in beyond the maximum."""
    gateway = await start()
    with ExitStack() as stack:
        for number in range(ADMIN_CONNECTIONS + ADMIN_BEYOND):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
            one.bind((f"127.0.9.{1 + number % 8}", 0))
            one.connect(("127.0.0.1", gateway.admin_port))
            one.sendall(KEPT + KEPT.replace(b"livez", b"metrics") * 100)
            await asyncio.sleep(0.005)
        await asyncio.sleep(1.2)
        for path in (b"livez", b"metrics"):
            for _ in range(8):
                asked = LIVE.replace(b"livez", path)
                assert status_of(await exchange(gateway.admin_port, asked)) == 200


async def test_a_refresh_that_is_under_way_at_the_admin_port_is_closed_by_no_crowd(
    start: Start, backend: ScriptedBackend
) -> None:
    gateway = await start()
    backend.on("rpc.discover", Hang("nothing"))
    async with AsyncExitStack() as stack:
        asking = [await stack.enter_async_context(client(gateway.admin_port)) for _ in range(3)]
        for one in asking:
            one.write(b"POST /refresh HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            await backend.called("rpc.discover", 2)
        crowd = await sent(stack, gateway.admin_port, 100, KEPT)
        assert {status_of(await one.answer()) for one in crowd} == {200}
        backend.release.set()
        assert {status_of(await one.answer()) for one in asking} <= {200, 502}


class Told:
    """Answers who is there."""

    async def __call__(self, request: HttpRequest) -> Response:
        return Response(b"ok\n", content_type=TEXT)

    raw_refusal = staticmethod(raw_refusal)

    def refusal(self, _: HttpRequest, error: GatewayError) -> Response:
        return Response(error.message.encode(), error.status, TEXT)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Use up the descriptors of this process, as far as they go."""
    gc.collect()  # what earlier tests left would give descriptors back in between
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def told(waiting: Sequence[socket.socket], port: int) -> list[bytes]:
    """What each of these sockets is told, all at once."""
    loop = asyncio.get_running_loop()

    async def ask(one: socket.socket) -> bytes:
        await loop.sock_connect(one, ("127.0.0.1", port))
        await loop.sock_sendall(one, LIVE)
        parts = []
        while part := await loop.sock_recv(one, 4096):
            parts.append(part)
        return b"".join(parts)

    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*map(ask, waiting))


@contextmanager
def sockets(count: int) -> Iterator[list[socket.socket]]:
    made = [socket.socket() for _ in range(count)]
    try:
        for one in made:
            one.setblocking(False)
        yield made
    finally:
        for one in made:
            one.close()


@each("loop", LOOPS)
def test_without_descriptors_connections_wait_the_log_says_so_and_all_are_answered_afterwards(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def short() -> None:
        public = await listen(Told())
        admin = await listen(Told(), spare=3)
        with sockets(20) as many, sockets(3) as few, capture_logs() as lines:
            await asyncio.get_running_loop().run_in_executor(None, int)  # threads have descriptors, too
            with no_descriptors():
                answers = asyncio.create_task(told(many, public.number))
                assert all(raw.endswith(b"ok\n") for raw in await told(few, admin.number))
                await until(lambda: lines)
                assert not answers.done()
                assert [line["event"] for line in lines] == ["no connection can be accepted"]
                assert lines[0]["reason"] == "too many open files"
            assert all(raw.endswith(b"ok\n") for raw in await answers)
            assert [line["event"] for line in lines][1:] == ["connections are accepted again"]
        await public.close()
        await admin.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(short())


async def test_the_limit_of_open_files_is_raised_and_max_connections_lowered_to_what_fits(
    backend: ScriptedBackend,
) -> None:
    knobs = ("backend.connections=20", "server.trusted_proxies=[127.0.0.0/8]")
    async with Program("serve", *settings(backend.url, *knobs), module="tests.e2e.few_files") as program:
        warning = await program.logged("server.max_connections is lowered to what the limit of open files allows")
        assert (warning["asked"], warning["limit"]) == (10_000, 400)
        most = warning["max_connections"]
        assert 50 < most < 300
        entry = await program.logged("gateway started")
        assert entry["max_connections"] == most
        await program.logged("listing refreshed")
        async with AsyncExitStack() as stack:
            await opened(stack, entry["port"], most)
            for _ in range(5):
                assert status_of(await refused(entry["port"])) == 503
            assert (await exchange(entry["admin_port"], LIVE)).endswith(b"alive\n")
        await program.logged("connections are no longer refused")
        assert status_of(await exchange(entry["port"], PING)) == 200
        assert "no connection can be accepted" not in program.output


async def test_two_thousand_connections_at_once_are_all_answered(backend: ScriptedBackend) -> None:
    """Fewer where the machine has not as many descriptors. How long they wait is a row of ``make bench``."""
    ready_for(AT_ONCE)
    async with serving(backend.url) as (program, gateway):
        port = int(gateway.base.rpartition(":")[2])
        share = (await program.logged("gateway started"))["max_connections"] // 4
        mine = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
        with sockets(min(AT_ONCE, share, mine)) as many:
            loop = asyncio.get_running_loop()

            async def ask(one: socket.socket) -> bytes:
                await loop.sock_connect(one, ("127.0.0.1", port))
                await loop.sock_sendall(one, PING)
                return await loop.sock_recv(one, 4096)

            async with asyncio.timeout(PATIENCE):
                answers = await asyncio.gather(*map(ask, many))
            assert {status_of(raw) for raw in answers} == {200}


async def test_the_host_may_be_a_name(start: Start) -> None:
    gateway = await start("server.host=localhost")
    assert status_of(await exchange(gateway.port, PING)) == 200
