"""PyPI google-genai: a ``ClientSession`` among the tools of a request. See :mod:`offering`.

What ``generate_content`` does before and after it asks the model: declarations of the tools, and responses to calls.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import Order
from google.genai import _extra_utils, types
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from offering import Answer, Offered, offer


def offered(declaration: types.FunctionDeclaration, adapters: dict[str, Any]) -> Offered:
    async def call(arguments: dict[str, Any]) -> Answer:
        part = types.Part(function_call=types.FunctionCall(name=declaration.name, args=arguments))
        asked = types.GenerateContentResponse(candidates=[types.Candidate(content=types.Content(parts=[part]))])
        (answer,) = await _extra_utils.get_function_response_parts_async(asked, adapters)
        ((became, content),) = answer.function_response.response.items()
        text = content if isinstance(content, str) else json.dumps(content.model_dump(mode="json", exclude_none=True))
        return Answer(became, text)

    return Offered(declaration.name, declaration.model_dump(exclude_none=True, warnings=False), call)


@asynccontextmanager
async def opened(order: Order) -> AsyncIterator[list[Offered]]:
    async with (
        streamable_http_client(order.url) as (reading, writing, *_),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        config = types.GenerateContentConfig(tools=[session])
        made, adapters = await _extra_utils.parse_config_for_mcp_sessions(config)
        declarations = [declaration for tool in made.tools for declaration in tool.function_declarations]
        yield [offered(declaration, adapters) for declaration in declarations]


offer(opened)
