"""Transports that are closed while they are busy."""

from __future__ import annotations

import asyncio

import pytest

from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import Outgoing, Reply
from gateway.http_client.response import ConnectFailed, Interrupted
from tests.contract.transports import SOCKETS, Act, SocketStand
from tests.each import each
from tests.waiting import PATIENCE


async def _ask(transport: SocketTransport) -> Reply:
    body = b'{"jsonrpc":"2.0","id":"c1","method":"m","params":[]}'
    return await transport.send(Outgoing("c1", body, RequestParts()), timeout=PATIENCE, max_bytes=2**24)


async def _busy(make: type[SocketStand]) -> tuple[SocketStand, SocketTransport]:
    stand = make()
    stand.act = Act.WAIT
    await stand.open()
    transport = stand.transport()
    assert isinstance(transport, SocketTransport)
    return stand, transport


@each("make", SOCKETS)
async def test_calls_on_connections_that_take_no_new_ones_end_too(make: type[SocketStand]) -> None:
    stand, transport = await _busy(make)
    call = asyncio.create_task(_ask(transport))
    await stand.got(1)
    for link in [*transport._links]:
        link.retire()
    await transport.close()
    with pytest.raises(Interrupted):
        await asyncio.wait_for(call, 5)
    assert not transport._retired
    await stand.close()


@each("make", SOCKETS)
async def test_no_connection_is_opened_once_the_transport_is_closed(make: type[SocketStand]) -> None:
    stand, transport = await _busy(make)
    transport.open_later()
    call = asyncio.create_task(_ask(transport))
    await asyncio.sleep(0.1)
    await transport.close()
    with pytest.raises(ConnectFailed, match="the gateway has closed its connections"):
        await call
    await stand.close()
