"""2026-07-28: ``subscriptions/listen`` (basic/patterns/subscriptions)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import METHODS, NUMBERS
from tests.protocol.conftest import Connect, Start
from tests.protocol.streams import Mark
from tests.protocol.talk import JSON, SUBSCRIPTION, Client, exchange, modern_headers, modern_request, status_of
from tests.tables import each_row
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")


QUICK = ("catalog.ttl=50ms", "mcp.heartbeat=50ms")
TOOLS = {"toolsListChanged": True}
CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def changed(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": CHANGED, "params": {"_meta": {SUBSCRIPTION: id}}}


def shrink(backend: ScriptedBackend) -> None:
    """From now on the backend lists fewer methods."""
    backend.on("rpc.discover", result(openrpc([ADD, NUMBERS])))


def restore(backend: ScriptedBackend) -> None:
    backend.on("rpc.discover", result(openrpc(METHODS)))


@each("id", ["sub-1", "", "7", 7, 0, -1, 2**60])
async def test_the_first_message_acknowledges_under_the_request_s_id(client: Client, id: Any) -> None:
    """MUST come first; the id goes back with its type."""
    async with client.listen(TOOLS, id) as stream:
        assert await stream.message() == {
            "jsonrpc": "2.0",
            "method": ACKNOWLEDGED,
            "params": {"_meta": {SUBSCRIPTION: id}, "notifications": TOOLS},
        }


@each_row
async def test_only_what_is_supported_is_acknowledged(client: Client, asked: Any, honoured: Any) -> None:
    """Types that are not supported are left out; nothing at all is fine."""
    async with client.listen(asked) as stream:
        assert (await stream.message())["params"]["notifications"] == honoured


@each("asked", [None, [], "toolsListChanged", True, ["toolsListChanged"]])
async def test_a_filter_that_is_none_is_refused_before_the_stream(client: Client, asked: Any) -> None:
    body = modern_request("subscriptions/listen", {"notifications": asked})
    assert (await client.mcp(body, modern_headers("subscriptions/listen"))).fault == (200, -32602)
    body = modern_request("subscriptions/listen")
    assert (await client.mcp(body, modern_headers("subscriptions/listen"))).fault == (200, -32602)


@each("id", ["sub-1", 7])
async def test_a_changed_listing_is_told_under_the_subscription_s_id(
    connect: Connect, backend: ScriptedBackend, id: Any
) -> None:
    """server/tools "List changed notification": and the next tools/list shows it."""
    client = await connect(*QUICK)
    async with client.listen(TOOLS, id) as stream:
        await stream.message()
        shrink(backend)
        assert await stream.message() == changed(id)
        listed = (await client.modern("tools/list")).result["tools"]
        assert [tool["name"] for tool in listed] == ["add", "numbers"]
        restore(backend)
        assert await stream.message() == changed(id)


async def test_several_listens_of_one_client_each_hear_of_the_change(
    connect: Connect, backend: ScriptedBackend
) -> None:
    """Several at once MUST work, told apart by their ids; two may even have the same."""
    client = await connect(*QUICK)
    ids = ["one", "two", 3, "3", "one"]
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(client.listen(TOOLS, id)) for id in ids]
        for stream in streams:
            await stream.message()
        shrink(backend)
        assert [await stream.message() for stream in streams] == [changed(id) for id in ids]


async def test_a_stream_that_ends_leaves_the_others_alone(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(*QUICK)
    async with client.listen(TOOLS, "stays") as stays:
        await stays.message()
        async with client.listen(TOOLS, "goes") as goes:
            await goes.message()
        shrink(backend)
        assert await stays.message() == changed("stays")


async def test_who_did_not_ask_for_changes_hears_of_none(start: Start, session: ClientSession, backend: Any) -> None:
    """MUST NOT send types that were not requested: the stream has its acknowledgement and its end."""
    gateway = await start(*QUICK)
    client = Client(session, gateway.port)
    async with client.listen({}, "quiet") as quiet, client.listen(TOOLS, "told") as told:
        acknowledged = await quiet.message()
        await told.message()
        shrink(backend)
        assert await told.message() == changed("told")
        await gateway.stop()
        (end,) = await quiet.rest()
    assert acknowledged["params"]["notifications"] == {}
    assert end["result"]


async def test_a_listing_that_stays_the_same_is_no_news(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start(*QUICK)
    async with Client(session, gateway.port).listen(TOOLS) as stream:
        await stream.message()
        async with asyncio.timeout(PATIENCE):
            await backend.called("rpc.discover", 4)
        await gateway.stop()
        assert [message.get("method") for message in await stream.rest()] == [None]


async def test_changes_in_quick_succession_are_told_once(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    """security.md S19: the first at once, later ones at most every ten seconds."""
    gateway = await start("catalog.ttl=50ms")
    async with Client(session, gateway.port).listen(TOOLS) as stream:
        await stream.message()
        shrink(backend)
        assert (await stream.message())["method"] == CHANGED
        restore(backend)
        async with asyncio.timeout(PATIENCE):
            await backend.called("rpc.discover", backend.calls("rpc.discover") + 3)
        await gateway.stop()
        assert [message.get("method") for message in await stream.rest()] == [None]


@each("asked", [TOOLS, {}])
async def test_a_quiet_stream_is_kept_alive_by_comments(connect: Connect, asked: Any) -> None:
    """streamable-http: encouraged, so that no proxy takes the stream for dead."""
    client = await connect("mcp.heartbeat=50ms")
    async with client.listen(asked) as stream:
        await stream.message()
        for _ in range(3):
            await stream.comment()


async def test_without_a_heartbeat_yet_the_stream_is_silent(start: Start, session: ClientSession) -> None:
    gateway = await start("mcp.heartbeat=5m")
    async with Client(session, gateway.port).listen(TOOLS, "s") as stream:
        await stream.message()
        await gateway.stop()
        assert (await stream.event())["id"] == "s"


@each("id", ["sub-1", 7])
async def test_a_gateway_that_stops_ends_the_stream_with_its_result(
    start: Start, session: ClientSession, id: Any
) -> None:
    """SHOULD: the response to the request, and then the end."""
    gateway = await start()
    async with Client(session, gateway.port).listen(TOOLS, id) as stream:
        await stream.message()
        await gateway.stop()
        assert await stream.message() == {
            "jsonrpc": "2.0",
            "id": id,
            "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: id}},
        }
        assert await stream.event() is Mark.END


@each("accept", ["application/json", "application/json, text/html", "*/*"])
async def test_who_does_not_accept_a_stream_is_refused(client: Client, accept: str) -> None:
    """406, since the only answer is a stream."""
    body = modern_request("subscriptions/listen", {"notifications": TOOLS})
    answer = await client.mcp(body, modern_headers("subscriptions/listen") | {"Accept": accept})
    assert answer.fault == (406, 406)


async def test_accept_may_come_in_two_lines(client: Client) -> None:
    """RFC 9110 §5.3: the same as one line with a comma."""
    body = json.dumps(modern_request("subscriptions/listen", {"notifications": 5})).encode()
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [*(fields | modern_headers("subscriptions/listen")).items(), ("Accept", "application/json")]
    for accepts in (lines, [*lines, ("Accept", "text/event-stream")]):
        head = "".join(f"{name}: {value}\r\n" for name, value in accepts)
        raw = await exchange(client.port, f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        assert status_of(raw) == (406 if accepts is lines else 200)


async def test_open_streams_are_bounded_and_free_again_once_closed(connect: Connect) -> None:
    """security.md: 429 with a time to wait; other requests are not touched."""
    client = await connect("limits.streams=2")
    async with client.listen(TOOLS, 1) as one:
        await one.message()
        async with client.listen(TOOLS, 2) as two:
            await two.message()
            refused = await client.modern("subscriptions/listen", {"notifications": TOOLS})
            assert refused.fault == (429, 429)
            assert int(refused.headers["Retry-After"]) >= 1
            assert (await client.modern("tools/list")).status == 200
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            while await opened(client, stack) != 200:
                pass  # the gateway hears of a closed stream a moment later


async def opened(client: Client, stack: AsyncExitStack) -> int:
    """The status that a listen gets, which stays open if it may."""
    body = json.dumps(modern_request("subscriptions/listen", {"notifications": TOOLS})).encode()
    answer = await client.request("POST", "/mcp", body, JSON | modern_headers("subscriptions/listen"))
    stack.callback(answer.close)
    return int(answer.status)


async def test_many_who_come_at_once_get_no_more_streams_than_allowed(connect: Connect) -> None:
    client = await connect("limits.streams=5")
    async with AsyncExitStack() as stack:
        statuses = await asyncio.gather(*(opened(client, stack) for _ in range(20)))
        assert sorted(statuses) == [200] * 5 + [429] * 15


async def test_streams_are_counted_by_caller(connect: Connect) -> None:
    """Who fills its own share takes nothing from others."""
    client = await connect("limits.streams=1", "server.trusted_proxies=[127.0.0.0/8]")
    body = modern_request("subscriptions/listen", {"notifications": TOOLS})
    headers = modern_headers("subscriptions/listen")
    async with client.stream(body, headers | {"X-Forwarded-For": "192.0.2.1"}) as one:
        await one.message()
        assert (await client.mcp(body, headers | {"X-Forwarded-For": "192.0.2.1"})).status == 429
        async with client.stream(body, headers | {"X-Forwarded-For": "192.0.2.2"}) as other:
            await other.message()


async def test_the_standard_headers_are_required_of_a_listen_too(client: Client) -> None:
    body = modern_request("subscriptions/listen", {"notifications": TOOLS})
    assert (await client.mcp(body, modern_headers("tools/list"))).fault == (400, -32020)


async def test_the_older_eras_know_no_listen(client: Client) -> None:
    answer = await client.legacy("subscriptions/listen", {"notifications": TOOLS})
    assert answer.fault == (200, -32601)
