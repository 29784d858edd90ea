"""PyPI pydantic-ai: ``MCPToolset``. See :mod:`offering`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import Order
from offering import Answer, Offered, offer
from pydantic_ai import RunContext, RunUsage
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ToolsetTool


def offered(toolset: MCPToolset[None], context: RunContext[None], name: str, tool: ToolsetTool[None]) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        checked = tool.args_validator.validate_json(json.dumps(arguments))
        return Answer("result", json.dumps(await toolset.call_tool(name, checked, context, tool)))

    return Offered(name, tool.tool_def.parameters_json_schema, call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    async with MCPToolset(order.url) as toolset:
        tools = await toolset.get_tools(context)
        yield [offered(toolset, context, name, tool) for name, tool in tools.items()]


offer(opened)
