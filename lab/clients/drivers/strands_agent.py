"""PyPI strands-agents: ``MCPClient`` as a provider of tools. See :mod:`offering`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import Order
from mcp.client.streamable_http import streamable_http_client
from offering import Answer, Offered, offer
from strands.tools.mcp import MCPClient
from strands.types.tools import AgentTool


def offered(tool: AgentTool) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        use = {"toolUseId": "1", "name": tool.tool_name, "input": arguments}
        (event,) = [event async for event in tool.stream(use, {})]
        result = event.tool_result
        text = "\n".join(part.get("text", "") for part in result["content"])
        return Answer("result" if result["status"] == "success" else f"status {result['status']}", text)

    return Offered(tool.tool_name, tool.tool_spec, call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    client = MCPClient(lambda: streamable_http_client(order.url))
    try:
        yield [offered(tool) for tool in await client.load_tools()]
    finally:
        client.stop(None, None, None)


offer(opened)
