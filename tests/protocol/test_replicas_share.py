"""Two gateways with one Redis: what one of them learns, the other knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.fault.behaviours import result
from tests.fault.methods import ADD, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import LEGACY, Front, front
from tests.protocol.catalog import METHODS
from tests.redis_server import RedisServer

PATIENCE = 15.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def backend() -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend() as backend:
        backend.on("rpc.discover", result(openrpc(METHODS)))
        yield backend


@pytest.fixture
async def replicas(server: RedisServer, backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[tuple[Front, Front]]:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    shared = (f"store.url={server.url}", f"server.secret_file={secret}", "limits.invocation=20/minute")
    async with AsyncExitStack() as stack:
        starts = [stack.enter_async_context(front(backend.url, *shared)) for _ in range(2)]
        one, other = await asyncio.gather(*starts)
        yield one, other


def listings_of(backend: ScriptedBackend) -> int:
    return [request.method for request in backend.requests].count("rpc.discover")


async def until_lists(replica: Front, names: set[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while set(await replica.tools()) != names:  # noqa: ASYNC110, the other replica decides when
            await asyncio.sleep(0.01)


async def test_of_two_that_start_together_one_lists(replicas: tuple[Front, Front], backend: ScriptedBackend) -> None:
    one, other = replicas
    assert await one.tools() == await other.tools()
    assert listings_of(backend) == 1


async def test_a_change_that_one_finds_the_other_has_without_asking(
    replicas: tuple[Front, Front], backend: ScriptedBackend
) -> None:
    one, other = replicas
    backend.on("rpc.discover", result(openrpc([*METHODS, replace(ADD, name="add_more")])))
    before = listings_of(backend)
    assert one.gateway is not None
    assert await one.gateway.list_anew() == ""
    await until_lists(other, set(await one.tools()))
    assert "add_more" in await other.tools()
    assert listings_of(backend) == before + 1


async def test_calls_of_one_caller_are_counted_by_both(replicas: tuple[Front, Front], backend: ScriptedBackend) -> None:
    """A burst of ten, a tenth of a rate but at least ten: a lease is one permit."""
    called = [await replicas[number % 2].call("rest", "add", {"a": 1, "b": 2}) for number in range(14)]
    assert [one.status for one in called].count(429) in (3, 4), "one comes back after three seconds"


async def test_while_redis_is_away_both_serve(replicas: tuple[Front, Front], server: RedisServer) -> None:
    server.kill()
    for replica in replicas:
        assert await replica.tools()
        called = await replica.call("rest", "add", {"a": 1, "b": 2})
        assert called.status == 200


async def test_a_session_that_ended_at_one_has_ended_at_the_other_with_its_streams(
    replicas: tuple[Front, Front],
) -> None:
    one, other = (replica.mcp for replica in replicas)
    headers = {"MCP-Protocol-Version": LEGACY, "Accept": "application/json, text/event-stream"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with aiohttp.ClientSession(headers=headers) as session, asyncio.timeout(PATIENCE):
        async with session.post(one, json={**ping, "method": "initialize", "params": params}) as answer:
            named = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        async with session.post(other, json=ping, headers=named) as answer:
            assert answer.status == 200
        async with session.get(other, headers=named) as stream:
            assert stream.status == 200
            async with session.delete(one, headers=named) as answer:
                assert answer.status == 204
            await stream.read()  # to its end
        async with session.post(other, json=ping, headers=named) as answer:
            assert answer.status == 404
