"""Answers to the byte: the order of members and the spelling of values are part of what clients have come to see.

``recorded_answers.txt`` has them, a line with the name of each and one with its body. What differs from run to run
(cursors, states, times to live) is replaced by its name.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from aiohttp import ClientSession

from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.catalog import METHODS
from tests.protocol.conftest import Start
from tests.protocol.talk import (
    CAPABILITIES,
    LEGACY,
    MODERN,
    Answer,
    Client,
    legacy_headers,
    modern_headers,
    modern_request,
    request,
)

pytestmark = pytest.mark.usefixtures("both_servers")

Named: TypeAlias = tuple[str, Answer]

KNOBS: Final = ("catalog.page_size=5", "catalog.tools.show.mcp=[blocks]",
                "catalog.tools.ask.mcp=[input_required]", "mcp.heartbeat=5m")  # fmt: skip
RECORDED: Final = Path(__file__).with_name("recorded_answers.txt")
_VARYING: Final = re.compile(rb'"(nextCursor|requestState|ttlMs)":("[^"]+"|[0-9]+)')
CALLS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "an object": ("add", {"a": 2, "b": 3}),
    "an array": ("numbers", {}),
    "a text with an output schema": ("greet", {"name": 'Zoë "\\\n'}),
    "a text without one": ("echo", {"value": "plain\ttext"}),
    "a number": ("echo", {"value": 10**30}),
    "null": ("echo", {"value": None}),
    "nothing": ("void", {}),
    "a fault": ("fail", {}),
    "blocks": ("show", {}),
}
BLOCKS: Final = {
    "content": [
        {"type": "text", "text": "“A”"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "https://example.com/a", "name": "The report"},
    ],
    "isError": True,
    "structuredContent": {"n": [1]},
}
QUESTION: Final = {
    "resultType": "input_required",
    "inputRequests": {"where": {"method": "roots/list"}},
    "requestState": "the backend's",
}


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (*METHODS, Rpc("show"), Rpc("ask"))


@pytest.fixture
async def client(start: Start, backend: ScriptedBackend, session: ClientSession) -> Client:
    backend.on("show", result(BLOCKS))
    backend.on("ask", result(QUESTION))
    return Client(session, (await start(*KNOBS)).port)


def recorded() -> dict[str, bytes]:
    lines = RECORDED.read_bytes().splitlines()
    return {name.decode(): body for name, body in zip(lines[::2], lines[1::2], strict=True)}


async def of_an_era(client: Client, era: str) -> AsyncIterator[Named]:
    first = await client.speak(era, "tools/list", {}, "first")
    yield "a page", first
    yield "the last page", await client.speak(era, "tools/list", {"cursor": first.result["nextCursor"]})
    for name, (tool, arguments) in CALLS.items():
        yield name, await client.speak(era, "tools/call", {"name": tool, "arguments": arguments}, name)
    # A beat is five minutes, so that one notice comes, and the response.
    with_progress = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": {"progressToken": "p"}}
    yield "progress", await client.speak(era, "tools/call", with_progress)


async def of_2026_07_28(client: Client) -> AsyncIterator[Named]:
    async for named in of_an_era(client, MODERN):
        yield named
    yield "discover", await client.modern("server/discover")
    asking = {"name": "ask", "arguments": {}, "_meta": {CAPABILITIES: {"roots": {}}}}
    yield "questions", await client.modern("tools/call", asking)
    of_the_future = modern_request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}})
    headers = {**modern_headers("tools/list"), "MCP-Protocol-Version": "2027-01-01"}
    yield "an unknown version", await client.mcp(of_the_future, headers)


def of_a_session(version: str) -> Callable[[Client], AsyncIterator[Named]]:
    async def answers(client: Client) -> AsyncIterator[Named]:
        async for named in of_an_era(client, version):
            yield named
        yield "ping", await client.legacy("ping", version=version)
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "probe", "version": "1.0"}}
        yield "initialize", await client.legacy("initialize", hello, version=None)
        if version == "2025-03-26":
            yield "a batch", await client.mcp([request("tools/list"), request("ping", id=2)], legacy_headers(version))

    return answers


async def of_rest(client: Client) -> AsyncIterator[Named]:
    first = await client.get("/mcp/tools/list")
    yield "a page", first
    yield "the last page", await client.get(f"/mcp/tools/list?cursor={first.json['nextCursor']}")
    yield "a description", await client.get("/mcp/tools/describe?name=add")
    for name, (tool, arguments) in CALLS.items():
        yield name, await client.post("/mcp/tools/invoke", {"name": tool, "arguments": arguments})


async def of_plain_json_rpc(client: Client) -> AsyncIterator[Named]:
    for name, (tool, arguments) in CALLS.items():
        yield name, await client.post("/jsonrpc", request(tool, arguments, name))
    yield "one tool's path", await client.post("/mcp/tools/numbers", request("numbers"))
    for id in (None, 1.50):
        yield f"the id {id}", await client.post("/jsonrpc", request("numbers", {}, id))
    items = [request("numbers"), request("no_such"), {"jsonrpc": "2.0", "method": "void"}, request("void", id=None), 5]
    yield "a batch", await client.post("/jsonrpc", items)


SURFACES: Final[Mapping[str, Callable[[Client], AsyncIterator[Named]]]] = {
    MODERN: of_2026_07_28,
    **{version: of_a_session(version) for version in LEGACY},
    "REST": of_rest,
    "JSON-RPC": of_plain_json_rpc,
}


@each("surface", [*SURFACES])
async def test_answers_are_the_recorded_ones(client: Client, surface: str) -> None:
    prefix = f"{surface}: "
    expected = {name: body for name, body in recorded().items() if name.startswith(prefix)}
    # A stream's events stand on one line.
    found = {
        prefix + name: _VARYING.sub(rb'"\1":\1', answer.body).replace(b"\n", rb"\n")
        async for name, answer in SURFACES[surface](client)
    }
    assert found == expected
