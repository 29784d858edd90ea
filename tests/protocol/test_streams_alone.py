"""Streams of notices stay open for hours; meanwhile a reload may put another service in the place of the first."""

from __future__ import annotations

import gc
import json
import weakref

import pytest
from multidict import CIMultiDict

from gateway.mcp.endpoint import Endpoint
from gateway.mcp.exchange import Inbound, StreamReply
from gateway.mcp.running import RunningCalls
from gateway.model import Caller
from gateway.server import Server
from tests.protocol.talk import JSON, LEGACY, MODERN, legacy_headers, modern_headers, modern_request


async def listened(endpoint: Endpoint, era: str) -> StreamReply:
    """A stream of notices."""
    if era != MODERN:
        return await endpoint.listen(Inbound(CIMultiDict({**JSON, **legacy_headers(era)}), b"", Caller("127.0.0.1")))
    message = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    headers = CIMultiDict({**JSON, **modern_headers("subscriptions/listen")})
    reply = await endpoint.answer(Inbound(headers, json.dumps(message).encode(), Caller("127.0.0.1")))
    assert isinstance(reply, StreamReply)
    return reply


@pytest.mark.parametrize("era", [MODERN, LEGACY[0]])
async def test_an_open_stream_keeps_nothing_alive_of_the_endpoint_that_began_it(gateway: Server, era: str) -> None:
    first = gateway._endpoint
    operations, invocation = first.modern._operations, first.modern._invocation
    endpoint = Endpoint(operations, invocation, first.legacy._sessions, RunningCalls())
    reply = await listened(endpoint, era)
    await anext(reply.events)
    gone = [weakref.ref(part) for part in (endpoint, endpoint.modern, endpoint.legacy)]
    del endpoint
    gc.collect()
    assert [part() for part in gone] == [None] * 3
    operations.changes.close()
    assert [json.loads(message)["result"]["resultType"] async for message in reply.events if message] == (
        ["complete"] if era == MODERN else []
    )
