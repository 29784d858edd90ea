"""What a caller holds on to: streams of its own view, sessions, and a person's consent. All are bound to issuer and
subject, whichever token shows them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import RESOURCE, Bearer, Stand, names, running, settings, stand
from tests.fault.behaviours import Body
from tests.fault.methods import ADD, ECHO, FAIL
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.streams import Stream
from tests.protocol.talk import CAPABILITIES, SESSION, Answer, legacy_headers, request
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")

LIST = "rpc.discover"
CHANGED = "notifications/tools/list_changed"
SWIFT = ("catalog.ttl=50ms", "mcp.heartbeat=50ms")
PING = request("ping")


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    async with stand(*SWIFT) as it:
        it.listings.shows("ann", ADD, ECHO)
        it.listings.shows("bob", FAIL)
        yield it


def listening(client: Bearer, era: str) -> AbstractAsyncContextManager[Stream]:
    """A stream that is told of changed tools."""
    if era == MODERN:
        return client.listen({"toolsListChanged": True})
    return client.stream(headers=legacy_headers(era))


async def opened(stream: Stream, era: str) -> None:
    """Read what every stream begins with."""
    if era == MODERN:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    else:
        await stream.comment()


@pytest.fixture(params=[MODERN, LEGACY[0]])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- streams ----------------------------------------------------------------------------------------------------


async def test_a_stream_is_told_of_its_own_callers_changes_alone(it: Stand, era: str) -> None:
    ann, bob = it.of("ann"), it.of("bob")
    for caller in (ann, bob):
        await names(caller)
    async with listening(ann, era) as hers, listening(bob, era) as his:
        for stream in (hers, his):
            await opened(stream, era)
        it.listings.shows("ann", ADD)
        assert (await hers.message())["method"] == CHANGED
        for _ in range(3):
            await his.comment()
        it.listings.shows("bob", ADD)
        assert (await his.message())["method"] == CHANGED
    assert await names(ann) == ["add"]


async def test_a_stream_keeps_its_callers_view_fresh_with_its_own_token(it: Stand, era: str) -> None:
    ann = it.of("ann")
    async with listening(ann, era) as stream:
        await opened(stream, era)
        async with asyncio.timeout(PATIENCE):
            await it.backend.called(LIST, 4)
    assert set(it.shown(LIST)) == {ann.token}


async def test_a_stream_ends_with_its_token(it: Stand, era: str) -> None:
    """Clocks may differ, so the token still opens one."""
    lasting, ending = it.of("ann"), it.of("ann", exp=int(time.time()))
    async with listening(lasting, era) as goes_on, listening(ending, era) as stream:
        await opened(goes_on, era)
        await opened(stream, era)
        rest = [message.get("method", message.get("result")) for message in await stream.rest()]
        assert len(rest) == (era == MODERN), "2026-07-28 says that it is over"
        await goes_on.comment()


async def test_a_stream_is_told_when_a_reload_hides_a_tool(it: Stand, era: str) -> None:
    ann = it.of("ann")
    await names(ann)
    async with listening(ann, era) as stream:
        await opened(stream, era)
        await it.reload(*SWIFT[:2], "catalog.exclude=[add]")
        assert (await stream.message())["method"] == CHANGED
        assert await names(ann) == ["echo"]


async def test_streams_are_counted_by_caller_and_not_by_address() -> None:
    async with stand("limits.streams=1", "mcp.heartbeat=50ms") as it:
        ann = it.of("ann")
        async with listening(ann, MODERN) as stream:
            await opened(stream, MODERN)
            assert not await it.of("ann").has_room_for_a_stream()
            assert await it.of("bob").has_room_for_a_stream()
            await stream.comment()


async def test_a_stream_wants_a_token(it: Stand, era: str) -> None:
    headers = {"Accept": "text/event-stream", **(legacy_headers(era) if era != MODERN else {})}
    assert (await it.client().send("GET", "/mcp", headers=headers)).status == 401


async def test_a_stream_that_has_begun_says_a_refusal_in_band() -> None:
    """The backend's 401 after the first byte: no challenge can be sent any more."""
    async with stand() as it:
        ann = it.of("ann")
        await names(ann)
        it.backend.on("add", Body(status=401, content_type=None))
        params: dict[str, Any] = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": {"progressToken": "p"}}
        headers = {**legacy_headers(LEGACY[0])}
        async with ann.stream(request("tools/call", params), headers) as stream:
            messages = await stream.rest()
        assert messages[-1]["result"]["isError"] is True
        assert it.backend.calls("add") == 1


# --- sessions ---------------------------------------------------------------------------------------------------


async def in_session(client: Bearer, session: str, body: object = PING) -> Answer:
    return await client.mcp(body, legacy_headers(LEGACY[0], session))


async def test_a_session_outlives_the_token_it_was_opened_with(it: Stand) -> None:
    session = await it.of("ann").initialize()
    assert (await in_session(it.of("ann"), session)).result == {}
    assert (await in_session(it.of("ann", "more scopes"), session)).result == {}


async def test_a_session_is_no_session_to_anybody_else(it: Stand) -> None:
    async with ForgedIssuer(RESOURCE) as other:
        knobs = ("auth.anonymous=list",)
        async with running(settings(it.backend.url, [it.issuer, other], *knobs)) as gateway:
            port = gateway.port
            ann = Bearer(it.session, port, it.issuer.sign(sub="ann"))
            session = await ann.initialize()
            for token in (it.issuer.sign(sub="bob"), other.sign(sub="ann"), None):
                stranger = Bearer(it.session, port, token)
                for verb in ("POST", "DELETE", "GET"):
                    headers = {**legacy_headers(LEGACY[0], session), "Accept": "application/json, text/event-stream"}
                    body = None
                    if verb == "POST":
                        body, headers["Content-Type"] = b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "application/json"
                    assert (await stranger.send(verb, "/mcp", body, headers)).status == 404
            assert (await in_session(ann, session)).result == {}, "nobody ended it"


async def test_a_session_authenticates_nobody(it: Stand) -> None:
    session = await it.of("ann").initialize()
    assert (await in_session(it.client(), session)).status == 401


async def test_only_its_caller_ends_a_session(it: Stand) -> None:
    session = await it.of("ann").initialize()
    headers = {SESSION: session, "MCP-Protocol-Version": LEGACY[0]}
    assert (await it.of("bob").send("DELETE", "/mcp", headers=headers)).status == 404
    assert (await it.of("ann").send("DELETE", "/mcp", headers=headers)).status == 204
    assert (await in_session(it.of("ann"), session)).status == 404


# --- consents ---------------------------------------------------------------------------------------------------


async def asks(client: Bearer, **more: Any) -> Answer:
    params = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": {CAPABILITIES: {"elicitation": {}}}, **more}
    return await client.modern("tools/call", params)


async def test_a_consent_is_its_callers_across_tokens_and_nobody_elses() -> None:
    async with stand("catalog.tools.add.confirm=true") as it:
        state = (await asks(it.of("ann"))).result["requestState"]
        agreed = {"inputResponses": {"confirm": {"action": "accept", "content": {}}}, "requestState": state}
        assert (await asks(it.of("bob"), **agreed)).fault == (200, -32602)
        assert it.backend.calls("add") == 0
        later = it.of("ann")
        assert (await asks(later, **agreed)).result["structuredContent"] == {"sum": 5}
        assert it.shown("add") == [later.token]


async def test_streams_end_where_a_reload_gives_each_caller_a_view_of_its_own(era: str) -> None:
    async with stand(*SWIFT, "backend.credentials.mode=none") as it, listening(it.of("ann"), era) as stream:
        await opened(stream, era)
        await it.gateway.reload(settings(it.backend.url, [it.issuer], *SWIFT))
        async with asyncio.timeout(PATIENCE):
            assert all(event.get("method") != CHANGED for event in await stream.rest())
