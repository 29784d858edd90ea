"""PyPI google-adk: ``McpToolset``. See :mod:`offering`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import Order
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import InMemorySessionService
from google.adk.tools import BaseTool, ToolContext
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from offering import Answer, Offered, offer


def offered(tool: BaseTool, context: ToolContext) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        result = await tool.run_async(args=arguments, tool_context=context)
        return Answer("isError of the result" if result.get("isError") else "result", json.dumps(result))

    return Offered(tool.name, tool._get_declaration().model_dump(exclude_none=True), call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    sessions = InMemorySessionService()
    context = ToolContext(
        InvocationContext(
            invocation_id="1",
            agent=LlmAgent(name="driver"),
            session=await sessions.create_session(app_name="driver", user_id="1"),
            session_service=sessions,
        )
    )
    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=order.url))
    try:
        yield [offered(tool, context) for tool in await toolset.get_tools()]
    finally:
        await toolset.close()


offer(opened)
