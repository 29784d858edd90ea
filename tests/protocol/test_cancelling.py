"""How a call is called off: in the older eras by ``notifications/cancelled``, since 2026-07-28 by hanging up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.process.server import Server
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect, Start
from tests.protocol.streams import Stream
from tests.protocol.talk import (
    JSON,
    LEGACY,
    Answer,
    Client,
    legacy_headers,
    modern_headers,
    modern_request,
    request,
)
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")


LATEST = LEGACY[0]
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}
WITH_PROGRESS = ADD | {"_meta": {"progressToken": "p"}}


@pytest.fixture
def watched(backend: ScriptedBackend) -> Watched:
    """The method ``add``, which answers when it is released."""
    watched = Watched()
    backend.on("add", watched)
    return watched


def cancelled(id: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, **more}}


async def cancel(client: Client, session: str | None, id: Any, version: str = LATEST, **more: Any) -> None:
    answer = await client.mcp(cancelled(id, **more), legacy_headers(version, session))
    assert (answer.status, answer.body) == (202, b"")


def calling(client: Client, session: str, id: Any, version: str = LATEST) -> asyncio.Task[Answer]:
    """A call under way."""
    return asyncio.create_task(client.mcp(request("tools/call", ADD, id), legacy_headers(version, session)))


async def ended(call: asyncio.Task[Answer]) -> Answer:
    async with asyncio.timeout(PATIENCE):
        return await call


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("id", ["mine", 7, 0])
async def test_cancelled_stops_the_call_and_there_is_no_response(
    client: Client, watched: Watched, version: str, id: Any
) -> None:
    """basic/utilities/cancellation: SHOULD stop, free what it holds, and not send a response."""
    session = await client.initialize(version)
    call = calling(client, session, id, version)
    await watched.begun()
    await cancel(client, session, id, version, reason="changed my mind")
    assert await watched.over() == "abandoned"
    answer = await ended(call)
    assert (answer.status, answer.body) == (202, b"")


async def test_a_stream_of_progress_ends_without_a_response_when_its_call_is_cancelled(
    connect: Connect, watched: Watched
) -> None:
    client = await connect("mcp.heartbeat=50ms")
    session = await client.initialize()
    async with client.stream(request("tools/call", WITH_PROGRESS, 7), legacy_headers(LATEST, session)) as stream:
        await watched.begun()
        await cancel(client, session, 7)
        assert await watched.over() == "abandoned"
        assert {message["method"] for message in await stream.rest()} == {"notifications/progress"}


@pytest.mark.parametrize("params", [ADD, WITH_PROGRESS], ids=["plain", "stream"])
async def test_a_cancelled_call_is_logged_as_cancelled(
    client: Client, watched: Watched, params: dict[str, Any]
) -> None:
    session = await client.initialize()
    with capture_logs() as logs:
        message = request("tools/call", params, 7)
        call = asyncio.create_task(client.mcp(message, legacy_headers(LATEST, session)))
        await watched.begun()
        await cancel(client, session, 7)
        await ended(call)
    lines = [(line["method"], line["outcome"], line["attempts"]) for line in logs if line["event"] == "request"]
    assert ("tools/call", "cancelled", 1) in lines


async def test_cancelled_reaches_no_call_of_another_session(client: Client, watched: Watched) -> None:
    """Ids are chosen by clients, and many choose the same."""
    session, other = await client.initialize(), await client.initialize()
    call = calling(client, session, 7)
    await watched.begun()
    await cancel(client, other, 7)
    await cancel(client, None, 7)
    assert watched.under_way
    watched.release()
    assert (await ended(call)).result["structuredContent"] == {"sum": 5}


@pytest.mark.parametrize("id", ["1", 2, -1, True, 1.0, None, [1], {"id": 1}])
async def test_cancelled_with_an_id_that_is_not_the_call_s_own_is_ignored(
    client: Client, watched: Watched, id: Any
) -> None:
    """An unknown id MAY be ignored; a string is no number, and true is no one."""
    session = await client.initialize()
    call = calling(client, session, 1)
    await watched.begun()
    await cancel(client, session, id)
    assert watched.under_way
    watched.release()
    assert (await ended(call)).result["structuredContent"] == {"sum": 5}


@each("params", [None, {}, [], [7], {"reason": "none"}])
async def test_cancelled_that_names_nothing_is_accepted_and_ignored(client: Client, params: Any) -> None:
    session = await client.initialize()
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled"} | ({} if params is None else {"params": params})
    answer = await client.mcp(body, legacy_headers(LATEST, session))
    assert (answer.status, answer.body) == (202, b"")


async def test_a_call_that_is_over_cannot_be_cancelled_and_its_id_may_come_again(
    client: Client, backend: ScriptedBackend
) -> None:
    session = await client.initialize()
    for _ in range(2):
        assert (await ended(calling(client, session, 7))).result["structuredContent"] == {"sum": 5}
        await cancel(client, session, 7)
    assert backend.calls("add") == 2


async def test_a_cancelled_call_leaves_the_others_alone(client: Client, backend: ScriptedBackend) -> None:
    stopped, kept = Watched(), Watched()
    backend.on("add", stopped)
    backend.on("numbers", kept)
    session = await client.initialize()
    one = calling(client, session, 1)
    other = asyncio.create_task(
        client.mcp(request("tools/call", {"name": "numbers"}, 2), legacy_headers(LATEST, session))
    )
    await stopped.begun()
    await kept.begun()
    await cancel(client, session, 1)
    assert await stopped.over() == "abandoned"
    assert (await ended(one)).body == b""
    assert kept.under_way
    kept.release()
    assert (await ended(other)).json["id"] == 2


async def hang_up(session: ClientSession, port: int, body: object, headers: dict[str, str], watched: Watched) -> None:
    """Send a request, and close the connection once the backend has the call."""
    url = f"http://127.0.0.1:{port}/mcp"
    sent = asyncio.create_task(session.post(url, data=json.dumps(body), headers=JSON | headers).__aenter__())
    await watched.begun()
    sent.cancel()
    await asyncio.wait({sent})


async def leave(stream: Stream, watched: Watched) -> None:
    """Hang up a stream in the middle of its call."""
    await watched.begun()
    await stream.message()
    stream.close()


async def test_hanging_up_cancels_a_plain_call_of_the_modern_era(
    gateway: Server, session: ClientSession, watched: Watched
) -> None:
    """2026-07-28 basic/patterns/cancellation: closing the connection is the cancellation, and MUST be heeded."""
    body, headers = modern_request("tools/call", ADD), modern_headers("tools/call", "add")
    await hang_up(session, gateway.port, body, headers, watched)
    assert await watched.over() == "abandoned"


async def test_hanging_up_cancels_a_stream_of_the_modern_era(client: Client, watched: Watched) -> None:
    body, headers = modern_request("tools/call", WITH_PROGRESS), modern_headers("tools/call", "add")
    async with client.stream(body, headers) as stream:
        await leave(stream, watched)
        assert await watched.over() == "abandoned"


@pytest.mark.parametrize("in_session", [True, False])
@pytest.mark.parametrize("version", LEGACY)
async def test_hanging_up_cancels_nothing_in_the_older_eras(
    gateway: Server,
    session: ClientSession,
    client: Client,
    backend: ScriptedBackend,
    watched: Watched,
    version: str,
    in_session: bool,
) -> None:
    """2025-11-25 basic/transports: a disconnection SHOULD NOT be taken for a cancellation."""
    headers = legacy_headers(version, await client.initialize(version) if in_session else None)
    await hang_up(session, gateway.port, request("tools/call", ADD), headers, watched)
    await gone(gateway, session, backend)
    assert watched.under_way
    watched.release()
    assert await watched.over() == "finished"


async def test_hanging_up_a_stream_cancels_nothing_in_the_older_eras(
    gateway: Server, session: ClientSession, client: Client, backend: ScriptedBackend, watched: Watched
) -> None:
    headers = legacy_headers(LATEST, await client.initialize())
    async with client.stream(request("tools/call", WITH_PROGRESS), headers) as stream:
        await leave(stream, watched)
        await gone(gateway, session, backend)
        assert watched.under_way
        watched.release()
        assert await watched.over() == "finished"


async def gone(gateway: Server, session: ClientSession, backend: ScriptedBackend) -> None:
    """Return when the gateway knows of connections that were closed before: it hears of them in order, and a modern
    client's that is closed now shows at the backend."""
    later = Watched()
    backend.on("numbers", later)
    body, headers = modern_request("tools/call", {"name": "numbers"}), modern_headers("tools/call", "numbers")
    await hang_up(session, gateway.port, body, headers, later)
    assert await later.over() == "abandoned"


async def test_a_call_whose_client_hung_up_can_still_be_cancelled_by_name(
    gateway: Server, session: ClientSession, client: Client, backend: ScriptedBackend, watched: Watched
) -> None:
    opened = await client.initialize()
    await hang_up(session, gateway.port, request("tools/call", ADD, 7), legacy_headers(LATEST, opened), watched)
    await gone(gateway, session, backend)
    await cancel(client, opened, 7)
    assert await watched.over() == "abandoned"


async def test_a_gateway_that_stops_lets_go_of_calls_whose_clients_are_gone(
    start: Start, session: ClientSession, backend: ScriptedBackend, watched: Watched
) -> None:
    gateway = await start()
    await hang_up(session, gateway.port, request("tools/call", ADD), legacy_headers(LATEST), watched)
    await gone(gateway, session, backend)
    async with asyncio.timeout(PATIENCE):
        await gateway.stop()
    assert await watched.over() == "abandoned"


async def test_a_cancelled_notification_of_the_modern_era_means_nothing(client: Client, watched: Watched) -> None:
    """Official clients still send it after they closed a stream; over HTTP it names nobody's call."""
    call = asyncio.create_task(client.modern("tools/call", ADD, id=7))
    await watched.begun()
    answer = await client.mcp(cancelled(7), {"MCP-Protocol-Version": "2026-07-28"})
    assert (answer.status, answer.body) == (202, b"")
    assert watched.under_way
    watched.release()
    assert (await ended(call)).result["structuredContent"] == {"sum": 5}
