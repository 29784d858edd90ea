"""PyPI mcp 2: ``mcp.client.client.Client``, in its modes auto, legacy and 2026-07-28. See :mod:`driving`."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from driving import Observed, Order, drive, given_up, grown
from mcp import StdioServerParameters
from mcp.client.client import Client


def connected(order: Order, **options: Any) -> Client:
    if isinstance(order.url, list):
        server = StdioServerParameters(command=order.url[0], args=order.url[1:])
        return Client(server, mode=order.era, **options)
    return Client(order.url, mode=order.era, **options)


async def all_tools(client: Client) -> tuple[list[str], int]:
    """Names, by cursor, and the number of pages."""
    names: list[str] = []
    pages, cursor = 0, None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        pages, cursor = pages + 1, page.next_cursor
        if cursor is None:
            return names, pages


async def all_names(client: Client) -> list[str]:
    return (await all_tools(client))[0]


async def listing(order: Order) -> Observed:
    async with connected(order) as client:
        names, pages = await all_tools(client)
        return {"version": client.protocol_version, "tools": names, "pages": pages}


async def calling(order: Order) -> Observed:
    async with connected(order) as client:
        good = await client.call_tool("add", {"a": 2, "b": 3})
        bad = await client.call_tool("fail", {})
        text = bad.content[0].text if bad.content else ""
        return {"structured": good.structured_content, "failed": good.is_error, "error": bad.is_error, "message": text}


async def asking(order: Order) -> Observed:
    asked: list[str] = []

    async def agree(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={})

    async with connected(order, elicitation_callback=agree) as client:
        result = await client.call_tool("agree", {"token": order.token})
        return {"asked": asked, "structured": result.structured_content, "failed": result.is_error}


async def changing(order: Order) -> Observed:
    if order.era == "legacy":
        return await changing_by_handler(order)
    async with connected(order) as client, client.listen(tools_list_changed=True) as subscription:
        before = await all_names(client)
        await client.call_tool("grow", {"name": order.token})
        heard = 0
        async for _ in subscription:
            heard += 1
            after = await all_names(client)
            if order.token in after:
                return {"before": before, "after": after, "heard": heard}
    return {"before": before, "heard": heard}


async def changing_by_handler(order: Order) -> Observed:
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
