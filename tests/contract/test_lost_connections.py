"""A connection that the network loses without a word: who acknowledges nothing gets no new calls, and may come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.backend.choice import open_transport
from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import Outgoing, Reply
from gateway.http_client.response import ConnectFailed, DeadlinePassed
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.contract.lost import Lost, LostStream, LostWebSocket
from tests.contract.transports import Act, anything_unfinished
from tests.waiting import PATIENCE, until

SILENCE = 2.0


@pytest.fixture(params=[LostStream, LostWebSocket])
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Lost]:
    made: Lost = request.param()
    await made.open()
    yield made
    made.find()
    await made.close()


@pytest.fixture
async def transport(stand: Lost) -> AsyncIterator[SocketTransport]:
    made = stand.transport()
    assert isinstance(made, SocketTransport)
    yield made
    await made.close()


async def ask(transport: SocketTransport, id: str, timeout: float = PATIENCE) -> Reply:
    body = b'{"jsonrpc":"2.0","id":"%s","method":"echo","params":[1]}' % id.encode()
    return await transport.send(Outgoing(id, body, RequestParts()), timeout=timeout, max_bytes=10**6)


async def right_again(transport: SocketTransport, timeout: float) -> int:
    """Call until an answer comes, and return how many calls had none."""
    for number in range(100):
        try:
            await ask(transport, f"again {number}", timeout)
        except (ConnectFailed, DeadlinePassed):
            continue
        return number
    raise AssertionError("no call has an answer")


async def test_new_calls_have_another_connection_and_those_on_the_lost_one_wait_and_may_be_answered(
    stand: Lost, transport: SocketTransport
) -> None:
    await ask(transport, "before")
    stand.lose()
    waits = asyncio.create_task(ask(transport, "waits"))
    lost = await right_again(transport, timeout=1.0)
    assert 0 < lost <= SILENCE + 1.5
    assert stand.listener.connections == 2
    assert not waits.done()
    stand.find()
    assert (await waits).body
    assert stand.listener.connections == 2


async def test_a_slow_service_keeps_its_connection(stand: Lost, transport: SocketTransport) -> None:
    stand.act = Act.WAIT
    slow = asyncio.create_task(ask(transport, "slow"))
    await stand.got(1)
    with pytest.raises(TimeoutError):  # it says nothing for longer than a lost one may
        await asyncio.wait_for(asyncio.shield(slow), SILENCE + 1.0)
    stand.act = Act.ECHO
    await ask(transport, "quick")
    stand.release.set()
    await slow
    assert stand.listener.connections == 1


async def test_while_all_that_are_opened_are_lost_no_more_than_one_further_is_opened(
    stand: Lost, transport: SocketTransport
) -> None:
    stand.loses_all = True
    calls = [asyncio.create_task(ask(transport, "first"))]
    await until(lambda: stand.listener.connections)
    async with asyncio.timeout(PATIENCE):
        for number in range(100):
            refused = asyncio.create_task(ask(transport, f"more {number}"))
            calls.append(refused)
            await asyncio.wait([refused], timeout=0.5)
            if refused.done():
                break
    with pytest.raises(ConnectFailed, match="nothing is acknowledged on its connections"):
        await refused
    assert stand.listener.connections == 2
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_connection_may_come_back_for_as_long_as_a_tool_may_take(stand: Lost) -> None:
    backend, tools = {"url": stand.url, "timeout": "1s"}, {"slow": {"timeout": "1h"}}
    settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": backend, "catalog": {"tools": tools}})
    made = open_transport(settings.by_mount[""], TlsFiles(), lambda _: True, anything_unfinished(), digest=False)
    assert isinstance(made, SocketTransport)
    stand.act = Act.WAIT
    slow = asyncio.create_task(ask(made, "slow"))
    await stand.got(1)
    stand.lose()
    with pytest.raises(DeadlinePassed):
        await ask(made, "short", timeout=1.5)
    stand.find()
    stand.release.set()
    assert (await slow).body
    await made.close()
