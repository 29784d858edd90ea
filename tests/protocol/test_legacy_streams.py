"""2024-11-05 to 2025-11-25: the GET stream (basic/transports "Listening for Messages from the Server")."""

from __future__ import annotations

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
from tests.protocol.streams import Mark, Stream
from tests.protocol.talk import JSON, LEGACY, Client, legacy_headers
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("both_servers")


QUICK = ("catalog.ttl=50ms", "mcp.heartbeat=50ms")
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def shrink(backend: ScriptedBackend) -> None:
    """From now on the backend lists fewer methods."""
    backend.on("rpc.discover", result(openrpc([ADD, NUMBERS])))


def restore(backend: ScriptedBackend) -> None:
    backend.on("rpc.discover", result(openrpc(METHODS)))


async def opened(stack: AsyncExitStack, client: Client, session: str | None, version: str | None = LEGACY[0]) -> Stream:
    """A GET stream that the gateway has begun."""
    stream = await stack.enter_async_context(client.stream(headers=legacy_headers(version, session)))
    await stream.comment()
    return stream


@each("version", LEGACY)
async def test_a_changed_listing_is_told_on_the_session_s_stream(
    connect: Connect, backend: ScriptedBackend, version: str
) -> None:
    """Official Python clients open this stream only because a session was issued."""
    client = await connect(*QUICK)
    session = await client.initialize(version)
    async with AsyncExitStack() as stack:
        stream = await opened(stack, client, session, version)
        shrink(backend)
        assert await stream.message() == CHANGED
        listed = (await client.legacy("tools/list", version=version)).result["tools"]
        assert [tool["name"] for tool in listed] == ["add", "numbers"]
        restore(backend)
        assert await stream.message() == CHANGED


@pytest.mark.parametrize("version", LEGACY)
async def test_a_client_without_a_session_may_listen_as_well(
    connect: Connect, backend: ScriptedBackend, version: str
) -> None:
    """npm's clients do; nobody knows whose their streams are, so each has its copy."""
    client = await connect(*QUICK)
    async with AsyncExitStack() as stack:
        streams = [await opened(stack, client, None, version) for _ in range(2)]
        shrink(backend)
        assert [await stream.message() for stream in streams] == [CHANGED, CHANGED]


async def test_of_one_session_s_streams_the_newest_alone_has_the_message(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    """MUST NOT broadcast: each message on one of the session's streams."""
    gateway = await start(*QUICK)
    client = Client(session, gateway.port)
    one, other = await client.initialize(), await client.initialize()
    async with AsyncExitStack() as stack:
        older = [await opened(stack, client, one) for _ in range(2)]
        newest = await opened(stack, client, one)
        foreign = await opened(stack, client, other)
        shrink(backend)
        assert await newest.message() == CHANGED
        assert await foreign.message() == CHANGED
        await gateway.stop()
        assert [await stream.rest() for stream in (*older, newest, foreign)] == [[], [], [], []]


async def test_when_the_newest_stream_closes_the_one_before_has_the_messages_again(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(*QUICK, "limits.streams=3")
    session = await client.initialize()
    async with AsyncExitStack() as stack:
        oldest = await opened(stack, client, session)
        middle = await opened(stack, client, session)
        newest = await opened(stack, client, session)
        newest.close()
        await until(client.has_room_for_a_stream)
        shrink(backend)
        assert await middle.message() == CHANGED
        middle.close()
        await until(client.has_room_for_a_stream)
        restore(backend)
        assert await oldest.message() == CHANGED


async def test_an_older_stream_that_closes_takes_nothing_from_the_newest(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect(*QUICK, "limits.streams=2")
    session = await client.initialize()
    async with AsyncExitStack() as stack:
        older = await opened(stack, client, session)
        newest = await opened(stack, client, session)
        older.close()
        await until(client.has_room_for_a_stream)
        shrink(backend)
        assert await newest.message() == CHANGED


async def test_a_message_is_told_to_both_eras(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(*QUICK)
    async with AsyncExitStack() as stack:
        stream = await opened(stack, client, await client.initialize())
        listening = await stack.enter_async_context(client.listen({"toolsListChanged": True}))
        await listening.message()
        shrink(backend)
        assert await stream.message() == CHANGED
        assert (await listening.message())["method"] == CHANGED["method"]


async def test_a_quiet_stream_is_kept_alive_by_comments(connect: Connect) -> None:
    """security.md H33; a stream that has nothing to say any more is kept alive too."""
    client = await connect("mcp.heartbeat=50ms")
    session = await client.initialize()
    async with AsyncExitStack() as stack:
        muted = await opened(stack, client, session)
        newest = await opened(stack, client, session)
        for stream in (muted, newest):
            await stream.comment()
            await stream.comment()


async def test_a_gateway_that_stops_ends_the_stream_in_peace(start: Start, session: ClientSession) -> None:
    """There is no response to a GET: the stream just ends, whole."""
    gateway = await start()
    client = Client(session, gateway.port)
    async with AsyncExitStack() as stack:
        stream = await opened(stack, client, await client.initialize())
        await gateway.stop()
        assert await stream.event() is Mark.END


@each("accept", ["application/json", "text/html", "*/*"])
async def test_who_does_not_accept_a_stream_is_refused(client: Client, accept: str) -> None:
    answer = await client.send("GET", "/mcp", headers={"Accept": accept, **legacy_headers(LEGACY[0])})
    assert answer.fault == (406, 406)


@each("version", ["2026-07-28", "2024-10-07"])
@each("verb", ["GET", "DELETE"])
async def test_another_era_s_version_is_405_even_with_a_session(
    client: Client, backend: ScriptedBackend, verb: str, version: str
) -> None:
    """The modern era has POST alone."""
    session = await client.initialize()
    answer = await client.send(verb, "/mcp", headers=JSON | legacy_headers(version, session))
    assert answer.fault == (405, 405)
    assert answer.headers["Allow"] == "POST"
    assert (await client.mcp({"jsonrpc": "2.0", "id": 1, "method": "ping"}, legacy_headers(None, session))).result == {}
    assert backend.requests == []


async def test_open_streams_are_bounded_whatever_their_era(connect: Connect) -> None:
    client = await connect("limits.streams=2")
    async with AsyncExitStack() as stack:
        one = await opened(stack, client, None)
        listening = await stack.enter_async_context(client.listen({}))
        await listening.message()
        refused: Any = await client.send("GET", "/mcp", headers=JSON | legacy_headers(LEGACY[0]))
        assert refused.fault == (429, 429)
        assert int(refused.headers["Retry-After"]) >= 1
        one.close()
        await until(client.has_room_for_a_stream)


async def test_the_end_of_a_session_ends_its_stream_and_no_other(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(*QUICK)
    session, other = await client.initialize(), await client.initialize()
    async with AsyncExitStack() as stack:
        ended, going_on = await opened(stack, client, session), await opened(stack, client, other)
        await client.send("DELETE", "/mcp", headers=legacy_headers(LEGACY[0], session))
        assert await ended.rest() == []
        shrink(backend)
        assert await going_on.message() == CHANGED
