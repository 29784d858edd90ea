"""Callers that have too much under way at once: on every surface, over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from aiohttp import ClientSession

from tests.each import each
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface
from tests.protocol.conftest import Connect, Start, settings
from tests.protocol.talk import (
    LEGACY,
    MODERN,
    Client,
    legacy_headers,
    modern_headers,
    modern_request,
    request,
)
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("both_servers")


ADD: Final = {"a": 2, "b": 3}
CALL: Final = {"name": "add", "arguments": ADD}


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_caller_with_too_many_calls_under_way_is_told_to_wait_for_one(
    start: Start, session: ClientSession, backend: ScriptedBackend, surface: Surface
) -> None:
    backend.on("echo", Hang("nothing"))
    gateway = await start("limits.concurrent=2")
    front = Front(gateway.port, session)
    async with asyncio.timeout(PATIENCE):
        under_way = [asyncio.create_task(front.call("rest", "echo", {"value": 1})) for _ in range(2)]
        await backend.called("echo", 2)
        refused = await front.call(surface, "add", ADD)
        assert refused.message == (
            "Too many calls at once: at most 2 may be under way. This call was not made. "
            "Wait until another one is answered, then call again"
        )
        if surface == "rest":
            assert (refused.status, refused.code, refused.headers["Retry-After"]) == (429, "rate_limited", "1")
        else:
            assert refused.result["_meta"]["retryAfter"] == 1
        backend.release.set()
        await asyncio.gather(*under_way)
        assert not (await front.call(surface, "add", ADD)).failed
    assert backend.calls("add") == 1


@each("path", ["/mcp", "/jsonrpc"])
async def test_a_batch_is_one_call_under_way(connect: Connect, backend: ScriptedBackend, path: str) -> None:
    client = await connect("limits.concurrent=1")
    method, params = ("tools/call", CALL) if path == "/mcp" else ("add", ADD)
    answer = await client.post(path, [request(method, params, id) for id in range(5)])
    assert all("result" in each and not each["result"].get("isError") for each in answer.json)


async def hang_up(client: Client, version: str, backend: ScriptedBackend) -> None:
    """Call a method that hangs, and hang up once the backend has the call."""
    backend.on("echo", Hang("nothing"))
    call = asyncio.create_task(client.speak(version, "tools/call", {"name": "echo", "arguments": {"value": 1}}))
    async with asyncio.timeout(PATIENCE):
        await backend.called("echo")
    call.cancel()
    await asyncio.wait([call])


async def test_who_hangs_up_is_still_counted_where_its_era_does_not_cancel(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect("limits.concurrent=1")
    await hang_up(client, LEGACY[0], backend)
    assert (await client.legacy("tools/call", CALL)).result["isError"] is True
    backend.release.set()
    await until(lambda: client.legacy("tools/call", CALL), lambda answer: not answer.result["isError"])


async def test_who_hangs_up_is_counted_no_more_where_its_era_cancels(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect("limits.concurrent=1")
    await hang_up(client, MODERN, backend)
    async with asyncio.timeout(PATIENCE):
        await backend.abandoned.wait()
    await until(lambda: client.modern("tools/call", CALL), lambda answer: not answer.result["isError"])


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
async def test_a_stream_of_progress_is_one_of_the_callers_streams_and_without_one_left_the_answer_is_plain(
    connect: Connect, backend: ScriptedBackend, version: str
) -> None:
    backend.on("echo", Hang("nothing"))
    client = await connect("limits.streams=2")

    def asked(tool: str, arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}}
        if version == MODERN:
            return modern_request("tools/call", params), modern_headers("tools/call", tool)
        return request("tools/call", params), legacy_headers(version)

    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(client.stream(*asked("echo", {"value": 1}))) for _ in range(2)]
        for stream in streams:
            await stream.message()
        assert not await client.has_room_for_a_stream()
        assert (await client.mcp(*asked("add", ADD))).result["structuredContent"] == {"sum": 5}
        backend.release.set()
        for stream in streams:
            await stream.rest()
        await until(client.has_room_for_a_stream)


@pytest.mark.parametrize("bound", ["limits.concurrent=1", "backend.connections=1"])
async def test_a_reload_forgets_no_call_that_is_under_way(
    start: Start, session: ClientSession, backend: ScriptedBackend, bound: str
) -> None:
    backend.on("echo", Hang("nothing"))
    knobs = (bound, "backend.queue_timeout=50ms")
    gateway = await start(*knobs)
    front = Front(gateway.port, session)
    async with asyncio.timeout(PATIENCE):
        under_way = asyncio.create_task(front.call("rest", "echo", {"value": 1}))
        await backend.called("echo")
        before = await front.call("rest", "add", ADD)
        await gateway.reload(settings(backend.url, *knobs, "catalog.ttl=1h"))
        after = await front.call("rest", "add", ADD)
        assert before.message == after.message
        assert backend.calls("add") == 0
        backend.release.set()
        assert not (await under_way).failed
        await until(lambda: front.call("rest", "add", ADD), lambda called: not called.failed)
