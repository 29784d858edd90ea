"""Calls for which there is no connection in time, and deadlines that are kept to the letter."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.http_client.response import DeadlinePassed, NoConnection
from gateway.http_client.session import Outbound
from tests.clock import Clock, by_hand
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.waiting import PATIENCE

BODY = b'{"jsonrpc":"2.0","id":"7","method":"add","params":{"a":2,"b":3}}'
NOT_SENT = "No connection to the backend came free in time; the call was not sent, so it is safe to repeat"
ADD = {"a": 2, "b": 3}


@asynccontextmanager
async def taken(backend: ScriptedBackend) -> AsyncIterator[Front]:
    """A gateway with one connection to the backend, which a call holds; calls of ``add`` do not wait long for it."""
    backend.on("echo", Hang("nothing"))
    knobs = ("backend.connections=1", "catalog.tools={add: {timeout: 50ms}}")
    async with front(backend.url, *knobs) as gateway, asyncio.timeout(PATIENCE):
        holding = asyncio.create_task(gateway.call("rest", "echo", {"value": 1}))
        await backend.called("echo")
        yield gateway
        backend.release.set()
        assert (await holding).status == 200


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_that_only_waited_for_a_connection_is_said_to_be_unsent(
    backend: ScriptedBackend, surface: Surface
) -> None:
    async with taken(backend) as gateway:
        called = await gateway.call(surface, "add", ADD)
        assert called.message == NOT_SENT
        assert backend.calls("add") == 0
        if surface == "rest":
            assert (called.status, called.code, called.headers["Retry-After"]) == (503, "backend_busy", "5")
        else:
            assert called.status == 200


async def test_an_unsent_call_in_json_rpc_is_an_error_that_says_so(backend: ScriptedBackend) -> None:
    async with taken(backend) as gateway:
        message = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": ADD}
        answer = (await gateway.post(f"{gateway.base}/jsonrpc", message)).body
        assert answer["error"] == {"code": 503, "message": NOT_SENT}
        answer = await gateway.post(f"{gateway.mcp}/tools/add", message)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert answer.body["error"]["message"] == NOT_SENT
        assert backend.calls("add") == 0


async def test_a_call_that_was_sent_and_not_answered_is_not_said_to_be_unsent(backend: ScriptedBackend) -> None:
    backend.on("add", Hang("nothing"))
    async with front(backend.url, "backend.timeout=1s") as gateway:
        called = await gateway.call("rest", "add", ADD)
        assert (called.status, called.code) == (504, "backend_timeout")
        assert "whether the call took effect is unknown" in called.message
        assert "Retry-After" not in called.headers


async def test_an_exchange_that_got_no_connection_says_that_nothing_was_sent(backend: ScriptedBackend) -> None:
    backend.default = Hang("nothing")
    outbound = Outbound(connections=1)
    holding = asyncio.create_task(outbound.request("POST", backend.url, BODY, {}, timeout=PATIENCE, max_bytes=1000))
    async with asyncio.timeout(PATIENCE):
        await backend.called("add")
    with pytest.raises(NoConnection) as caught:
        await outbound.request("POST", backend.url, BODY, {}, timeout=0.05, max_bytes=1000)
    assert not caught.value.sent
    holding.cancel()
    with suppress(asyncio.CancelledError):
        await holding
    await outbound.close()


async def test_a_service_that_takes_no_connection_before_the_deadline_was_sent_nothing() -> None:
    """Its queue of connections is full, as an overloaded service's is."""
    with socket.socket() as service, socket.socket() as queued:
        service.bind(("127.0.0.1", 0))
        service.listen(0)
        queued.connect(service.getsockname())
        outbound = Outbound()
        url = f"http://127.0.0.1:{service.getsockname()[1]}/"
        with pytest.raises(NoConnection) as caught:
            await outbound.request("POST", url, BODY, {}, timeout=0.1, max_bytes=1000)
        assert not caught.value.sent
        await outbound.close()


@by_hand
async def test_a_deadline_beyond_five_seconds_is_not_rounded_up(clock: Clock) -> None:
    """aiohttp would let 5.25 s from 1000.9 be over at 1007."""
    async with ScriptedBackend(default=Hang("nothing")) as backend:
        outbound = Outbound()
        call = asyncio.create_task(outbound.request("POST", backend.url, BODY, {}, timeout=5.25, max_bytes=1000))
        await backend.called("add")
        await clock.moves_on(5.2)
        assert not call.done()
        await clock.moves_on(0.1)
        assert call.done()
        with pytest.raises(DeadlinePassed):
            await call
        await outbound.close()


@by_hand
async def test_the_wait_for_a_connection_counts_and_is_not_rounded_up_either(clock: Clock) -> None:
    async with ScriptedBackend(default=Hang("nothing")) as backend:
        outbound = Outbound(connections=1)
        first = asyncio.create_task(outbound.request("POST", backend.url, BODY, {}, timeout=60, max_bytes=1000))
        await backend.called("add")
        second = asyncio.create_task(outbound.request("POST", backend.url, BODY, {}, timeout=8.25, max_bytes=1000))
        await clock.moves_on(8.2)
        assert not second.done()
        await clock.moves_on(0.1)
        assert second.done()
        with pytest.raises(NoConnection):
            await second
        first.cancel()
        await asyncio.wait([first])
        await outbound.close()
