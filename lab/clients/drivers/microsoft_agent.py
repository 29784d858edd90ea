"""PyPI agent-framework: ``MCPStreamableHTTPTool``. See :mod:`offering`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import FunctionTool, MCPStreamableHTTPTool
from driving import Order
from offering import Answer, Offered, offer


def offered(tool: FunctionTool) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        contents = await tool.invoke(arguments=arguments)
        return Answer("result", "\n".join(content.text for content in contents))

    return Offered(tool.name, tool.to_json_schema_spec(), call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    async with MCPStreamableHTTPTool(name="gateway", url=order.url) as server:
        yield [offered(tool) for tool in server.functions]


offer(opened)
