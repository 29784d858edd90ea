"""Which connections the lean transport keeps, for how long, and what it does with several addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from structlog.testing import capture_logs

from gateway.http_client.lean import MAX_IDLE, LeanTransport
from gateway.http_client.lean_connection import MAX_HEAD
from gateway.http_client.response import (
    KEEPALIVE,
    BadHttp,
    ConnectFailed,
    DeadlinePassed,
    Interrupted,
    NoConnection,
)
from tests.clock import Clock, by_hand
from tests.each import each
from tests.fault.behaviours import SUM, Hang, result
from tests.fault.scripted import ScriptedBackend
from tests.fault.unasked import Lingering
from tests.resolving import Names
from tests.waiting import PATIENCE, until

CALL = b'{"jsonrpc":"2.0","id":"7","method":"add","params":{"a":2,"b":3}}'
NAME = "service.example.com"


@asynccontextmanager
async def transport_to(backend: ScriptedBackend) -> AsyncIterator[LeanTransport]:
    async with backend:
        transport = LeanTransport()
        try:
            yield transport
        finally:
            await transport.close()


async def post(transport: LeanTransport, url: str, timeout: float = 10) -> int:
    return (await transport.request("POST", url, CALL, {}, timeout=timeout, max_bytes=100_000)).status


@by_hand
async def test_an_idle_connection_is_used_for_a_while_and_then_closed(clock: Clock) -> None:
    backend = ScriptedBackend()
    async with transport_to(backend) as transport:
        await post(transport, backend.url)
        await clock.moves_on(KEEPALIVE - 0.1)
        await post(transport, backend.url)
        assert backend.connections == 1
        await clock.moves_on(KEEPALIVE + 1.1)
        assert repr(transport) == f"<LeanTransport to 127.0.0.1:{backend.port}, 0 connections>"
        await post(transport, backend.url)
        assert backend.connections == 2


@by_hand
async def test_what_the_service_says_of_its_patience_counts_if_it_is_less(clock: Clock) -> None:
    backend = ScriptedBackend(default=result({"sum": 5}, headers=(("Keep-Alive", "timeout=1, max=100"),)))
    async with transport_to(backend) as transport:
        await post(transport, backend.url)
        await clock.moves_on(0.4)
        await post(transport, backend.url)
        assert backend.connections == 1
        await clock.moves_on(0.6)
        await post(transport, backend.url)
        assert backend.connections == 2


@by_hand
async def test_the_connection_that_was_used_last_is_used_next(clock: Clock) -> None:
    """The connections that a rush opened are then idle long enough to be closed."""
    backend = ScriptedBackend()
    async with transport_to(backend) as transport:
        await asyncio.gather(*(post(transport, backend.url) for _ in range(5)))
        assert backend.connections == 5
        for _ in range(5):
            await clock.moves_on(KEEPALIVE / 2)
            await post(transport, backend.url)
        assert backend.connections == 5
        assert repr(transport).endswith("1 connections>")


async def test_more_connections_than_are_kept_are_closed_after_use() -> None:
    backend = ScriptedBackend()
    async with transport_to(backend) as transport, asyncio.timeout(PATIENCE):
        await asyncio.gather(*(post(transport, backend.url) for _ in range(MAX_IDLE + 5)))
        await asyncio.sleep(0)
        assert repr(transport).endswith(f"{MAX_IDLE} connections>")


async def test_a_connection_whose_request_was_not_read_is_not_used_again() -> None:
    """The service answers at once and reads nothing: what it has not read yet would come before the next request."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        transport = LeanTransport()
        body = b"x" * 20_000_000
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        for _ in range(2):
            exchange = asyncio.create_task(transport.request("POST", url, body, {}, timeout=10, max_bytes=1000))
            connection, _ = await loop.sock_accept(listener)
            accepted.append(connection)
            await loop.sock_sendall(connection, b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            assert (await exchange).status == 413
        await transport.close()
        for connection in accepted:
            connection.close()


@each("begun", {"value": b"X-Long: ", "name": b"X-Long", "reason": b"HTTP/1.1 200 "})
async def test_a_line_of_a_head_without_end_is_given_up_at_the_size_of_a_head(begun: bytes) -> None:
    """Nothing else would end it: each byte comes in time."""
    head = b"" if begun.startswith(b"HTTP") else b"HTTP/1.1 200 OK\r\n"
    piece = b"x" * 4096
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        transport = LeanTransport()
        exchange = asyncio.create_task(post(transport, f"http://127.0.0.1:{listener.getsockname()[1]}/", PATIENCE))
        connection, _ = await loop.sock_accept(listener)
        with connection:
            await loop.sock_sendall(connection, head + begun)
            sent = 0
            while not exchange.done() and sent < 64 * MAX_HEAD:
                with suppress(ConnectionError):
                    await loop.sock_sendall(connection, piece)
                sent += len(piece)
                await asyncio.sleep(0)
            assert exchange.done(), "it reads on"
            with pytest.raises(BadHttp):
                await exchange
        await transport.close()


async def test_closing_ends_exchanges_under_way_and_refuses_others() -> None:
    backend = ScriptedBackend(default=Hang("nothing"))
    async with backend:
        transport = LeanTransport()
        exchange = asyncio.create_task(post(transport, backend.url))
        await backend.called("add")
        await transport.close()
        with pytest.raises(Interrupted):
            await exchange
        with pytest.raises(ConnectFailed):
            await post(transport, backend.url)


async def test_a_deadline_closes_the_connection() -> None:
    backend = ScriptedBackend(default=Hang("half"))
    async with transport_to(backend) as transport:
        with pytest.raises(DeadlinePassed):
            await post(transport, backend.url, timeout=0.5)
        await asyncio.sleep(0)
        assert repr(transport).endswith("0 connections>")


async def test_an_address_that_refuses_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch)
    names[NAME] = [["127.0.0.2", "127.0.0.1"]]
    backend = ScriptedBackend()
    async with transport_to(backend) as transport:
        assert await post(transport, f"http://{NAME}:{backend.port}/jsonrpc") == 200
        assert await post(transport, f"http://{NAME}:{backend.port}/jsonrpc") == 200
    assert names.asked == [NAME]


async def test_an_address_that_does_not_answer_is_left_in_time_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch)
    names[NAME] = [["127.0.0.2", "127.0.0.1"]]
    backend = ScriptedBackend()
    async with transport_to(backend) as transport:
        silent, full = socket.socket(), socket.socket()
        with silent, full:
            silent.bind(("127.0.0.2", backend.port))
            silent.listen(0)
            full.connect(silent.getsockname())  # from now on the kernel answers no attempt to connect
            url = f"http://{NAME}:{backend.port}/jsonrpc"
            assert await post(transport, url, timeout=1) == 200
            silent.accept()[0].close()  # if it were the first again, it would take a connection now, and answer nothing
            assert await asyncio.gather(*(post(transport, url) for _ in range(2))) == [200, 200]
        assert backend.connections == 2
    assert names.asked == [NAME]


async def test_exchanges_at_the_same_time_share_the_look_up_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look-up holds a thread, and few may be under way: with one for each exchange, most would wait too long."""
    names = Names(monkeypatch)
    names[NAME] = [["127.0.0.1"]]
    names.hanging.add(NAME)
    backend = ScriptedBackend()
    async with transport_to(backend) as transport:
        url = f"http://{NAME}:{backend.port}/jsonrpc"
        with pytest.raises(NoConnection):
            await post(transport, url, timeout=0.05)
        exchanges = [asyncio.create_task(post(transport, url)) for _ in range(50)]
        await names.wait(1)
        await asyncio.sleep(0)
        assert sum(thread.name == "name look-up" for thread in threading.enumerate()) == 1
        names.release.set()
        assert await asyncio.gather(*exchanges) == [200] * 50
    assert names.asked == [NAME]


@each("more", (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"\x00", b"\r\n\r\nHTTP"))
async def test_a_service_that_says_more_than_its_answers_gets_a_connection_for_each_call(more: bytes) -> None:
    """Snapserver 0.26 answers each POST twice: here a moment after the first answer was read."""
    backend = ScriptedBackend()
    transport = LeanTransport()
    told = Lingering(more, "keep")
    async with backend:
        backend.default = told
        with capture_logs() as logs:
            await post(transport, backend.url)
            await told.goes_on()
            backend.default = SUM
            await until(lambda: logs)
        assert [entry["log_level"] for entry in logs] == ["warning"]
        for _ in range(3):
            assert await post(transport, backend.url) == 200
        assert backend.connections == 4
        await transport.close()
