"""PyPI llama-index-tools-mcp: ``McpToolSpec``. See :mod:`offering`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import Order
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.calling import acall_tool
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from offering import Answer, Offered, offer


def offered(tool: FunctionTool) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        output = await acall_tool(tool, arguments)
        return Answer("is_error of the output" if output.is_error else "result", str(output.content))

    name = tool.metadata.get_name()
    return Offered(name, tool.metadata.to_openai_tool(skip_length_check=True), call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    tools = await McpToolSpec(BasicMCPClient(order.url)).to_tool_list_async()
    yield [offered(tool) for tool in tools]


offer(opened)
