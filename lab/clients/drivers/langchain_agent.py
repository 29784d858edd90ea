"""PyPI langchain-mcp-adapters: ``MultiServerMCPClient``. See :mod:`offering`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import Order
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from offering import Answer, Offered, offer


def offered(tool: BaseTool) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": arguments})
        return Answer("result" if message.status == "success" else f"status {message.status}", str(message.text))

    return Offered(tool.name, convert_to_openai_tool(tool), call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    client = MultiServerMCPClient({"gateway": {"transport": "streamable_http", "url": order.url}})
    yield [offered(tool) for tool in await client.get_tools()]


offer(opened)
