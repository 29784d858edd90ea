"""The official Python client, in each of its modes, lists and calls through the gateway as if services spoke MCP."""

from collections.abc import Callable
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.types import CallToolResult, TextContent

from tests.front import LEGACY, MODERN, front
from tests.services.launch import ARIA2_SECRET
from tests.services.process import Service

MODES = ("auto", "legacy", MODERN)
ARIA2 = (
    "backend.listing.dialect=introspection",
    f"backend.credentials={{mode: static, send: {{params: ['token:{ARIA2_SECRET}']}}}}",
)


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.fixture(params=MODES)
def connect(request: pytest.FixtureRequest) -> Callable[[str], Client]:
    """Make a client of one mode for a gateway's MCP address."""
    return lambda url: Client(url, mode=request.param)


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", LEGACY), (MODERN, MODERN)])
async def test_each_mode_negotiates_its_revision(openrpc_app: Service, mode: Any, version: str) -> None:
    async with front(openrpc_app.url) as gateway, Client(gateway.mcp, mode=mode) as client:
        assert client.protocol_version == version


async def test_a_python_service_is_listed_and_called(openrpc_app: Service, connect: Callable[[str], Client]) -> None:
    async with front(openrpc_app.url) as gateway, connect(gateway.mcp) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == sorted(tools)
        assert len(tools) == 10
        assert tools["walk"].input_schema["$defs"]["Node"]["required"] == ["name"]

        # The client checks results against the output schemas that it was shown.
        vectors = {"u": {"x": 1, "y": 0}, "v": {"x": 0, "y": 1}}
        crossed = await client.call_tool("cross", vectors)
        assert crossed.structured_content == {"x": 0.0, "y": 0.0, "z": 1.0}
        tree = {"name": "root", "children": [{"name": "leaf"}]}
        assert text(await client.call_tool("walk", {"node": tree})) == '["root","leaf"]'
        assert text(await client.call_tool("echo", {"value": 2**70 + 1})) == str(2**70 + 1)
        assert not (await client.call_tool("ping", {})).is_error


async def test_failures_of_a_tool_come_as_is_error(openrpc_app: Service, connect: Callable[[str], Client]) -> None:
    async with front(openrpc_app.url) as gateway, connect(gateway.mcp) as client:
        for tool, arguments, message in (
            ("withdraw", {"amount": 200}, 'Insufficient funds: {"balance":100}'),
            ("crash", {}, "Server error"),
            ("add", {"a": "two"}, 'Invalid arguments: a: "two" is not of type "integer"'),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert text(result) == message
            assert result.structured_content is None


async def test_aria2_is_listed_and_called(aria2: Service, connect: Callable[[str], Client]) -> None:
    async with front(aria2.url, *ARIA2) as gateway, connect(gateway.mcp) as client:
        assert len(await names(client)) == 31
        result = await client.call_tool("aria2.getVersion", {})
        assert '"version"' in text(result)
        failed = await client.call_tool("aria2.tellStatus", {"params": ["nope"]})
        assert failed.is_error
        assert text(failed) == "Invalid GID nope"
        assert ARIA2_SECRET not in result.model_dump_json() + failed.model_dump_json()


async def test_the_reference_openrpc_server_is_listed_and_called(
    openrpc_server: Service, connect: Callable[[str], Client]
) -> None:
    openrpc_server.restart()
    async with front(openrpc_server.url) as gateway, connect(gateway.mcp) as client:
        assert await names(client) == ["create_pet", "forget_pet", "get_pet", "list_pets"]
        assert text(await client.call_tool("list_pets", {})).startswith('[{"id":1,"name":"rex"')
        pet = await client.call_tool("get_pet", {"petId": 1})
        assert pet.structured_content == {"id": 1, "name": "rex", "tag": "dog"}
        missing = await client.call_tool("get_pet", {"petId": 99})
        assert (missing.is_error, text(missing)) == (True, 'No such pet: {"petId":99}')
        nothing = await client.call_tool("forget_pet", {"petId": 2})
        assert nothing.is_error
    assert openrpc_server.running


async def test_a_client_follows_the_pages(openrpc_app: Service, connect: Callable[[str], Client]) -> None:
    async with front(openrpc_app.url, "catalog.page_size=3") as gateway, connect(gateway.mcp) as client:
        found: list[str] = []
        page = await client.list_tools()
        while True:
            assert len(page.tools) <= 3
            found += [tool.name for tool in page.tools]
            if page.next_cursor is None:
                break
            page = await client.list_tools(cursor=page.next_cursor)
        assert len(found) == len(set(found)) == 10
