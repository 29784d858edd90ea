"""Streams of notices stay open for hours; meanwhile a reload may put another service in the place of the first."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from aiohttp import ClientSession

from gateway.process.server import Server
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, ECHO, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start, settings
from tests.protocol.streams import Mark, Stream
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers

pytestmark = pytest.mark.usefixtures("both_servers")

CHANGED = "notifications/tools/list_changed"
ERAS = (MODERN, LEGACY[0])


def opened(client: Client, era: str) -> Any:
    """A stream of notices."""
    if era == MODERN:
        return client.listen({"toolsListChanged": True})
    return client.stream(None, {"Accept": "text/event-stream", **legacy_headers(era)})


async def begun(stream: Stream, era: str) -> None:
    if era == MODERN:
        await stream.message()
    else:
        await stream.comment()


@pytest.mark.parametrize("era", ERAS)
async def test_a_stream_goes_on_over_a_reload_and_keeps_nothing_alive_of_the_service_before(
    start: Start, session: ClientSession, backend: ScriptedBackend, era: str
) -> None:
    gateway = await start()
    async with opened(Client(session, gateway.port), era) as stream:
        await begun(stream, era)
        gone = weakref.ref(gateway.services[""])
        await gateway.reload(settings(backend.url, "limits.discovery=7/minute"))
        await retired(gateway)
        gc.collect()
        assert gone() is None
        backend.on("rpc.discover", result(openrpc([ADD])))
        await gateway.refresh_listings()
        assert (await stream.message())["method"] == CHANGED


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "knob", ["catalog.exclude=[echo]", "catalog.search=true", "catalog.names=mcp", "catalog.tools={add: {title: Sum}}"]
)
async def test_a_reload_that_changes_what_is_listed_is_told_once(
    start: Start, session: ClientSession, backend: ScriptedBackend, era: str, knob: str
) -> None:
    gateway = await start()
    async with opened(Client(session, gateway.port), era) as stream:
        await begun(stream, era)
        await gateway.reload(settings(backend.url, knob))
        assert (await stream.message())["method"] == CHANGED
        await gateway.refresh_listings()
        await gateway.stop()
        assert [message for message in await stream.rest() if message.get("method") == CHANGED] == []


@each("era", ERAS)
async def test_before_another_backend_the_first_listing_is_told_where_it_differs(
    start: Start, session: ClientSession, backend: ScriptedBackend, era: str
) -> None:
    gateway = await start()
    async with ScriptedBackend([ADD, ECHO]) as other, opened(Client(session, gateway.port), era) as stream:
        await begun(stream, era)
        await gateway.reload(settings(other.url))
        assert (await stream.message())["method"] == CHANGED
        assert backend.calls("rpc.discover") == 0, "since the stream was opened"
        assert other.calls("rpc.discover") == 1


@each("era", ERAS)
async def test_streams_end_where_who_may_call_changes(
    start: Start, session: ClientSession, backend: ScriptedBackend, era: str
) -> None:
    gateway = await start()
    async with opened(Client(session, gateway.port), era) as stream:
        await begun(stream, era)
        await gateway.reload(settings(backend.url, "auth.mode=off", "auth.allow_unauthenticated=true"))
        assert all(event.get("method") != CHANGED for event in await stream.rest())
        assert await stream.event() is Mark.END


async def retired(gateway: Server) -> None:
    """Return once the services that were replaced are gone."""
    for task in list(gateway._retiring.values()):
        await task
