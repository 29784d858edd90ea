"""PyPI openai-agents: ``MCPServerStreamableHttp`` of an ``Agent``. See :mod:`offering`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper
from agents.mcp import MCPServerStreamableHttp
from agents.tool_context import ToolContext
from driving import Order
from offering import Answer, Offered, offer


def offered(tool: FunctionTool) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        sent = json.dumps(arguments)
        context = ToolContext(None, tool_name=tool.name, tool_call_id="1", tool_arguments=sent)
        output = await tool.on_invoke_tool(context, sent)
        return Answer("result", output["text"] if isinstance(output, dict) else str(output))

    return Offered(tool.name, tool.params_json_schema, call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    async with MCPServerStreamableHttp(params={"url": order.url}) as server:
        agent = Agent(name="driver", mcp_servers=[server])
        yield [offered(tool) for tool in await agent.get_mcp_tools(RunContextWrapper(None))]


offer(opened)
