"""PyPI crewai: ``MCPServerHTTP`` among the ``mcps`` of an agent. See :mod:`offering`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from crewai.mcp import MCPServerHTTP
from crewai.mcp.tool_resolver import MCPToolResolver
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.logger import Logger
from driving import Order
from offering import Answer, Offered, offer


def offered(tool: MCPNativeTool) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        result = tool.run(**arguments)  # with a running loop: without one CrewAI 1.15 fails on Python 3.11
        if isinstance(result, ToolFailure):
            return Answer("a ToolFailure", result.message)
        return Answer("result", str(result))

    return Offered(tool.original_tool_name, tool.args_schema.model_json_schema(), call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    resolver = MCPToolResolver(agent=None, logger=Logger(verbose=False))
    yield [offered(tool) for tool in await asyncio.to_thread(resolver.resolve, [MCPServerHTTP(url=order.url)])]


offer(opened)
