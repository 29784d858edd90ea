"""PyPI fastmcp 4: ``fastmcp.Client``, in its modes auto, legacy and 2026-07-28. See :mod:`driving`."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from driving import Observed, Order, abandoned, drive
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError


def connected(order: Order, **options: Any) -> Client[Any]:
    if isinstance(order.url, list):
        return Client(StdioTransport(order.url[0], order.url[1:], keep_alive=False), mode=order.era, **options)
    return Client(order.url, mode=order.era, **options)


async def listing(order: Order) -> Observed:
    """This client goes through the pages itself."""
    async with connected(order) as client:
        return {"version": client.protocol_version, "tools": [tool.name for tool in await client.list_tools()]}


async def calling(order: Order) -> Observed:
    """This client raises a tool's error."""
    async with connected(order) as client:
        good = await client.call_tool("add", {"a": 2, "b": 3})
        observed = {"structured": good.structured_content, "failed": good.is_error}
        try:
            await client.call_tool("fail", {})
        except ToolError as error:
            return observed | {"error": True, "message": str(error)}
        return observed | {"error": False, "message": ""}


async def asking(order: Order) -> Observed:
    asked: list[str] = []

    async def agree(message: str, *_: object) -> ElicitResult[dict[str, Any]]:
        asked.append(message)
        return ElicitResult(action="accept", content={})

    async with connected(order, elicitation_handler=agree) as client:
        result = await client.call_tool("agree", {"token": order.token})
        return {"asked": asked, "structured": result.structured_content, "failed": result.is_error}


async def changing(order: Order) -> Observed:
    """In the era of sessions; in 2026-07-28 this client opens no subscription."""
    changes: asyncio.Queue[None] = asyncio.Queue()

    async def handler(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changes.put_nowait(None)

    async with connected(order, message_handler=handler) as client:
        before = [tool.name for tool in await client.list_tools()]
        await client.call_tool("grow", {"name": order.token})
        heard = 0
        while True:
            await changes.get()
            heard += 1
            after = [tool.name for tool in await client.list_tools()]
            if order.token in after:
                return {"before": before, "after": after, "heard": heard}


async def cancelling(order: Order) -> Observed:
    async with connected(order) as client:
        call = asyncio.create_task(client.call_tool("slow", {"token": order.token}))
        begun = await client.call_tool("await_slow", {"token": order.token})
        outcome = await abandoned(call)
        stopped = await client.call_tool("await_stopped", {"token": order.token})
        return {"begun": begun.structured_content, "outcome": outcome, "stopped": stopped.structured_content}


async def killed(order: Order) -> Observed:
    async with connected(order) as client:
        return {"survived": str(await client.call_tool("slow", {"token": order.token}))}


drive(
    {
        "list": listing, "call": calling, "page": listing, "change": changing, "cancel": cancelling, "killed": killed,
        "ask": asking,
    }
)  # fmt: skip
