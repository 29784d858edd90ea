"""PyPI fastmcp 4: ``fastmcp.Client``, in its modes auto, legacy and 2026-07-28. See :mod:`driving`."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from driving import Observed, Order, drive, given_up, grown
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError


def connected(order: Order, **options: Any) -> Client[Any]:
    if isinstance(order.url, list):
        return Client(StdioTransport(order.url[0], order.url[1:], keep_alive=False), mode=order.era, **options)
    return Client(order.url, mode=order.era, **options)


async def all_names(client: Client[Any]) -> list[str]:
    """This client goes through the pages itself."""
    return [tool.name for tool in await client.list_tools()]


async def listing(order: Order) -> Observed:
    async with connected(order) as client:
        return {"version": client.protocol_version, "tools": await all_names(client)}


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
        return await grown(order, client, lambda: all_names(client), changes)


async def cancelling(order: Order) -> Observed:
    async with connected(order) as client:
        return await given_up(order, client)


async def killed(order: Order) -> Observed:
    async with connected(order) as client:
        return {"survived": str(await client.call_tool("slow", {"token": order.token}))}


drive(
    {
        "list": listing, "call": calling, "page": listing, "change": changing, "cancel": cancelling, "killed": killed,
        "ask": asking,
    }
)  # fmt: skip
