"""What a client does with a connection that it kept, and that the other side has closed or written to meanwhile.

The service here is bare sockets, so that a test decides when the kernel has what, before the client's loop looks."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.http_client.choice import HttpClient
from gateway.http_client.response import Interrupted
from tests.contract.http_clients import Make
from tests.each import each
from tests.waiting import PATIENCE


class Service:
    """A service that answers when it is told to. ``heard`` are the requests that it read to their end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._open: list[socket.socket] = []
        self.heard: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"

    async def accept(self) -> socket.socket:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        connection.setblocking(False)
        self._open.append(connection)
        return connection

    async def answer(self, connection: socket.socket, text: bytes) -> None:
        """Read a request and answer it."""
        loop = asyncio.get_running_loop()
        request = b""
        while b"\r\n\r\nend" not in request:
            data = await loop.sock_recv(connection, 65536)
            if not data:
                return
            request += data
        self.heard.append(request)
        await loop.sock_sendall(connection, answer(text))

    def is_called(self) -> bool:
        """Tell whether a further connection waits to be accepted."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def close(self) -> None:
        for one in (self._listener, *self._open):
            one.close()


def answer(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


async def post(client: HttpClient, service: Service) -> bytes:
    return (await client.request("POST", service.url, b"end", {}, timeout=PATIENCE, max_bytes=1000)).body


@asynccontextmanager
async def pair(make: Make) -> AsyncIterator[tuple[HttpClient, Service]]:
    client = make()
    with contextlib.closing(Service()) as service:
        try:
            yield client, service
        finally:
            await client.close()


async def kept(client: HttpClient, service: Service) -> socket.socket:
    """The service's side of a connection that has served a request, and is kept."""
    first = asyncio.create_task(post(client, service))
    connection = await service.accept()
    await service.answer(connection, b"first")
    assert await first == b"first"
    return connection


def closes(connection: socket.socket) -> None:
    connection.close()


def closes_half(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def sent_unsolicited(connection: socket.socket) -> None:
    connection.sendall(answer(b"unasked"))


def times_out(connection: socket.socket) -> None:
    """Ends it as nginx, HAProxy and others end one on which nothing came for too long."""
    connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    connection.close()


@each("act", [closes, closes_half, resets, sent_unsolicited, times_out])
@each("read_by_the_loop", [False, True])
async def test_a_kept_connection_that_was_closed_or_written_to_is_not_used(
    make: Make, act: Callable[[socket.socket], None], read_by_the_loop: bool
) -> None:
    async with asyncio.timeout(PATIENCE), pair(make) as (client, service):
        act(await kept(client, service))
        for _ in range(5 if read_by_the_loop else 0):
            await asyncio.sleep(0)

        async def serve() -> None:
            await service.answer(await service.accept(), b"second")

        serving = asyncio.create_task(serve())
        try:
            assert await post(client, service) == b"second"
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        assert len(service.heard) == 2


async def test_an_idle_connection_that_timed_out_costs_no_other_connection(make: Make) -> None:
    async with asyncio.timeout(PATIENCE), pair(make) as (client, service):
        times_out(await kept(client, service))
        for _ in range(5):  # the loop reads it
            await asyncio.sleep(0)
        calls = asyncio.create_task(_calls(client, service, 50))
        connection = await service.accept()
        for _ in range(50):
            await service.answer(connection, b"again")
        assert await calls == [b"again"] * 50
        assert not service.is_called()


async def _calls(client: HttpClient, service: Service, count: int) -> list[bytes]:
    return [await post(client, service) for _ in range(count)]


async def test_a_kept_connection_is_used_where_nothing_happened_to_it(make: Make) -> None:
    async with asyncio.timeout(PATIENCE), pair(make) as (client, service):
        connection = await kept(client, service)
        second = asyncio.create_task(post(client, service))
        await service.answer(connection, b"second")
        assert await second == b"second"


async def test_a_request_that_meets_the_close_may_have_been_read(make: Make) -> None:
    """The service closed after the request was written: nobody can say whether it took effect. It is not repeated."""
    async with asyncio.timeout(PATIENCE), pair(make) as (client, service):
        connection = await kept(client, service)
        second = asyncio.create_task(post(client, service))
        assert await asyncio.get_running_loop().sock_recv(connection, 65536)
        resets(connection)
        with pytest.raises(Interrupted) as caught:
            await second
        assert caught.value.sent
        assert not service.is_called()
