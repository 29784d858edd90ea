"""The headers of requests to the service: those of JSON-RPC over HTTP, the same whatever is asked."""

from __future__ import annotations

import pytest

from gateway import __version__
from tests.each import each
from tests.fault.behaviours import Body
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.fault.wire import Request
from tests.front import SURFACES, Surface, front

pytestmark = pytest.mark.usefixtures("both_servers")

PAGE = b'{"tools":[{"name":"add","description":"Adds","inputSchema":{"type":"object"}}],"nextCursor":null}'


def header(sent: Request, name: str) -> list[str]:
    return sent.headers.getall(name, [])


def is_json_alone(sent: Request) -> bool:
    return header(sent, "Accept") == ["application/json"]


@each("surface", SURFACES)
async def test_a_call_asks_for_json_and_says_that_it_is_json(surface: Surface) -> None:
    async with ScriptedBackend([ADD]) as backend, front(backend.url) as gateway:
        assert (await gateway.call(surface, "add", {"a": 1, "b": 2})).value == {"sum": 3}
        (call,) = [sent for sent in backend.requests if sent.method == "add"]
        assert is_json_alone(call)
        assert header(call, "Content-Type") == ["application/json"]
        assert header(call, "User-Agent") == [f"jsonrpc-mcp-gateway/{__version__}"]


async def test_each_question_of_a_listing_asks_for_json_by_post_and_by_get() -> None:
    async with ScriptedBackend([ADD]) as backend:
        backend.pages["/mcp/tools/list"] = Body(PAGE)
        async with front(backend.url, "backend.listing.dialect=jsonrpc_mcp"):
            pass
        async with front(backend.url, "backend.listing.dialect=openrpc"):
            pass
        asked = {sent.verb for sent in backend.requests}
        assert asked == {"GET", "POST"}
        assert all(map(is_json_alone, backend.requests))
