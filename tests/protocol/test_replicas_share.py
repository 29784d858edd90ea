"""Two gateways with one Redis: what one of them learns, the other knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from gateway.settings.store import StoreSettings
from gateway.store.redis import RedisStore
from gateway.store.redis_client import make_client
from tests.fault.behaviours import InTurn, error, result
from tests.fault.methods import ADD, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import LEGACY, Front, front
from tests.protocol.asking import session_of
from tests.protocol.catalog import METHODS
from tests.protocol.talk import CAPABILITIES, Answer, Client, request
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

CONFIRM = "catalog.tools.greet.confirm=true"
READ_ONLY = "catalog.tools.echo.annotations.readOnlyHint=true"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def knobs() -> tuple[str, ...]:
    """What a test sets beside the store."""
    return ()


@pytest.fixture
async def replicas(
    server: RedisServer, backend: ScriptedBackend, knobs: tuple[str, ...], tmp_path: Path
) -> AsyncIterator[tuple[Front, Front]]:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    shared = (f"server.secret_file={secret}", CONFIRM, *knobs)
    async with AsyncExitStack() as stack:
        # Other tests may keep the machine busy: an answer is not slow for that.
        stores = [RedisStore(make_client(StoreSettings(url=server.url)), slow=PATIENCE) for _ in range(2)]
        starts = [stack.enter_async_context(front(backend.url, *shared, store=store)) for store in stores]
        one, other = await asyncio.gather(*starts)
        yield one, other


def listings_of(backend: ScriptedBackend) -> int:
    return [request.method for request in backend.requests].count("rpc.discover")


async def until_lists(replica: Front, names: set[str]) -> None:
    await until(replica.tools, lambda tools: set(tools) == names)


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
    assert await one.gateway.refresh_listings() == ""
    await until_lists(other, set(await one.tools()))
    assert "add_more" in await other.tools()
    assert listings_of(backend) == before + 1


@pytest.mark.parametrize("knobs", [("limits.invocation=20/minute",)], ids=["20 a minute"])
async def test_calls_of_one_caller_are_counted_by_both(replicas: tuple[Front, Front], backend: ScriptedBackend) -> None:
    """A burst of ten, a tenth of a rate but at least ten: a lease is one permit."""
    called = [await replicas[number % 2].call("rest", "add", {"a": 1, "b": 2}) for number in range(14)]
    assert [one.status for one in called].count(429) in (3, 4), "one comes back after three seconds"


@pytest.mark.parametrize("knobs", [(READ_ONLY,)], ids=["read-only"])
async def test_one_that_starts_later_knows_what_calls_have_taught_the_others(
    replicas: tuple[Front, Front], backend: ScriptedBackend, server: RedisServer, tmp_path: Path
) -> None:
    backend.on("numbers", result("no list"))
    backend.on("echo", InTurn((error(-32602, "Invalid params"), result(1), result(2))))
    await replicas[0].call("rest", "numbers", {})
    assert (await replicas[0].call("rest", "echo", {"value": 1})).value == 1
    store = RedisStore(make_client(StoreSettings(url=server.url)), slow=PATIENCE)
    shared = (f"server.secret_file={tmp_path / 'secret'}", CONFIRM, READ_ONLY)
    async with front(backend.url, *shared, store=store) as late:
        await until(late.tools, lambda tools: not tools["numbers"].get("outputSchema"))
        assert (await late.call("rest", "echo", {"value": 2})).value == 2
    structures = [type(sent.params) for sent in backend.requests if sent.method == "echo"]
    assert structures == [dict, list, list]
    assert backend.calls("numbers") == 1


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


async def consent(client: Client, state: str | None) -> Answer:
    more = {} if state is None else {"inputResponses": {"confirm": {"action": "accept", "content": {}}}}
    params = {"name": "greet", "arguments": {"name": "Ada"}, "_meta": {CAPABILITIES: {"elicitation": {}}}, **more}
    return await client.modern("tools/call", params if state is None else params | {"requestState": state})


async def test_one_consent_runs_a_tool_once_whichever_replica_hears_it(
    replicas: tuple[Front, Front], backend: ScriptedBackend
) -> None:
    async with aiohttp.ClientSession() as session:
        one, other = (Client(session, replica.gateway.port) for replica in replicas if replica.gateway)
        for number in range(20):
            state = (await consent(one, None)).result["requestState"]
            answers = await asyncio.gather(*(consent(client, state) for client in (one, other, one, other)))
            assert sum(b'"result"' in answer.body for answer in answers) == 1, number
        assert [request.method for request in backend.requests].count("greet") == 20


async def test_while_redis_is_away_a_consent_is_refused_and_nothing_runs(
    replicas: tuple[Front, Front], backend: ScriptedBackend, server: RedisServer
) -> None:
    gateway = replicas[0].gateway
    assert gateway is not None
    async with aiohttp.ClientSession() as session:
        client = Client(session, gateway.port)
        state = (await consent(client, None)).result["requestState"]
        server.kill()
        refused = await consent(client, state)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert [request.method for request in backend.requests].count("greet") == 0
        async with session.get(f"http://127.0.0.1:{gateway.admin_port}/readyz?verbose") as answer:
            assert answer.status == 200
            assert "the store is unavailable: ConnectionError" in await answer.text()
        server.start()
        await until(lambda: consent(client, state), lambda answer: answer.status != 503)
        assert [request.method for request in backend.requests].count("greet") == 1


async def test_while_redis_is_away_an_answer_that_reaches_another_replica_is_to_be_given_again(
    replicas: tuple[Front, Front], backend: ScriptedBackend, server: RedisServer
) -> None:
    async with aiohttp.ClientSession() as session:
        one, other = (Client(session, replica.gateway.port) for replica in replicas if replica.gateway)
        headers = await session_of(one)
        call = request("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
        async with one.stream(call, headers) as stream:
            asked = (await stream.message())["id"]
            server.kill()
            reply = {"jsonrpc": "2.0", "id": asked, "result": {"action": "decline"}}
            answer = await other.mcp(reply, headers)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert (await one.mcp(reply, headers)).status == 202
            (message,) = await stream.rest()
            assert message["error"]["code"] == 503, "nobody can tell whether this answer was used"
    assert backend.calls("greet") == 0


async def test_the_start_says_what_a_store_in_memory_does_not_share(backend: ScriptedBackend) -> None:
    with capture_logs() as lines:
        async with front(backend.url):
            (said,) = (line for line in lines if line["event"] == "the store is in memory")
            assert "consents" in said["of_each_process"]
