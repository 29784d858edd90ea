"""Who waits how long while there is no listing: older discovery clients give up after five seconds, MCP's do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.process.server import Server
from gateway.web import rest
from tests.fault.behaviours import Hang, result
from tests.fault.methods import openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import Front
from tests.protocol.catalog import METHODS
from tests.protocol.conftest import settings
from tests.protocol.talk import LEGACY, Client, legacy_headers, request
from tests.waiting import PATIENCE


@pytest.fixture
async def waiting(backend: ScriptedBackend) -> AsyncIterator[Server]:
    """A gateway whose backend takes its time for the first listing."""
    backend.on("rpc.discover", Hang("nothing", result(openrpc(tuple(METHODS)))))
    gateway = Server(settings(backend.url, "backend.listing.timeout=60s"))
    await gateway.start()
    async with asyncio.timeout(PATIENCE):
        await backend.called("rpc.discover")
    yield gateway
    backend.release.set()
    await gateway.stop()


async def answered(session: ClientSession, url: str) -> tuple[int, str | None, str]:
    async with session.get(url) as response:
        return response.status, response.headers.get("Retry-After"), await response.text()


async def test_rest_says_when_to_come_back_while_the_listing_goes_on_and_mcp_waits_for_it(
    session: ClientSession, backend: ScriptedBackend, waiting: Server
) -> None:
    front = Front(waiting.port, session)
    tools = f"{front.mcp}/tools"
    async with asyncio.timeout(PATIENCE):
        patient = asyncio.create_task(front.tools("modern"))
        answers = await asyncio.gather(
            answered(session, f"{tools}/list"), answered(session, f"{tools}/describe?name=add")
        )
        for status, retry_after, text in answers:
            assert status == 503
            assert retry_after is not None
            assert int(retry_after) >= 1
            assert '"catalog_unavailable"' in text
        assert not backend.abandoned.is_set()
        assert not patient.done()
        backend.release.set()
        assert "add" in await patient
        assert (await answered(session, f"{tools}/list"))[0] == 200
    assert backend.calls("rpc.discover") == 1


def test_the_wait_of_rest_leaves_time_for_the_answer_within_four_seconds() -> None:
    assert 0 < rest.PATIENCE < 4


async def test_a_call_that_is_cancelled_while_it_waits_for_the_first_listing_is_not_made(
    session: ClientSession, backend: ScriptedBackend, waiting: Server
) -> None:
    client = Client(session, waiting.port)
    headers = legacy_headers(LEGACY[0], await client.initialize())
    add = {"name": "add", "arguments": {"a": 2, "b": 3}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}}
    with capture_logs() as logs:
        async with asyncio.timeout(PATIENCE):
            call, other = (
                asyncio.create_task(client.mcp(request("tools/call", add, id), headers)) for id in ("mine", "other")
            )
            for _ in range(20):  # so that one comes after the call, whichever connection is read first
                assert (await client.mcp(cancel, headers)).status == 202
            backend.release.set()
            answers = await asyncio.gather(call, other)
    assert [(answer.status, answer.body == b"") for answer in answers] == [(202, True), (200, False)]
    assert backend.calls("add") == 1
    outcomes = {line["outcome"] for line in logs if line["event"] == "request" and line["method"] == "tools/call"}
    assert outcomes == {"cancelled", "ok"}
