"""PyPI mcp 1: ``ClientSession``, which speaks 2025-11-25 and older. See :mod:`driving`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from driving import PATIENCE, Observed, Order, abandoned, drive, grown
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


def streams(order: Order, http: httpx.AsyncClient | None) -> Any:
    if isinstance(order.url, list):
        return stdio_client(StdioServerParameters(command=order.url[0], args=order.url[1:]))
    return streamable_http_client(order.url, http_client=http)


@asynccontextmanager
async def connected(
    order: Order, http: httpx.AsyncClient | None = None, **options: Any
) -> AsyncIterator[ClientSession]:
    async with (
        streams(order, http) as (reading, writing, *_),
        ClientSession(reading, writing, **options) as session,
    ):
        await session.initialize()
        yield session


async def all_tools(session: ClientSession) -> tuple[list[str], int]:
    """Names, by cursor, and the number of pages."""
    names: list[str] = []
    pages, cursor = 0, None
    while True:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        names += [tool.name for tool in page.tools]
        pages, cursor = pages + 1, page.nextCursor
        if cursor is None:
            return names, pages


async def all_names(session: ClientSession) -> list[str]:
    return (await all_tools(session))[0]


async def listing(order: Order) -> Observed:
    async with connected(order) as session:
        names, pages = await all_tools(session)
        return {"tools": names, "pages": pages}


async def calling(order: Order) -> Observed:
    async with connected(order) as session:
        good = await session.call_tool("add", {"a": 2, "b": 3})
        bad = await session.call_tool("fail", {})
        text = bad.content[0].text if bad.content else ""
        return {"structured": good.structuredContent, "failed": good.isError, "error": bad.isError, "message": text}


async def asking(order: Order) -> Observed:
    asked: list[str] = []

    async def agree(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={})

    async with connected(order, elicitation_callback=agree) as session:
        result = await session.call_tool("agree", {"token": order.token})
        return {"asked": asked, "structured": result.structuredContent, "failed": result.isError}


async def changing(order: Order) -> Observed:
    changes: asyncio.Queue[None] = asyncio.Queue()

    async def handler(message: object) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            changes.put_nowait(None)

    async with connected(order, message_handler=handler) as session:
        return await grown(order, session, lambda: all_names(session), changes)


async def cancelling(order: Order) -> Observed:
    """This client tells nobody that a call was given up, so that the application sends the notification; nor does it
    tell a request's id, which is therefore read where the request leaves."""
    ids: dict[str, int] = {}

    async def note(request: httpx.Request) -> None:
        message = json.loads(request.content) if request.content else {}
        if message.get("method") == "tools/call":
            ids[message["params"]["name"]] = message["id"]

    async with (
        httpx.AsyncClient(timeout=PATIENCE, event_hooks={"request": [note]}) as http,
        connected(order, http) as session,
    ):
        call = asyncio.create_task(session.call_tool("slow", {"token": order.token}))
        begun = await session.call_tool("await_slow", {"token": order.token})
        params = types.CancelledNotificationParams(requestId=ids["slow"])
        await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        stopped = await session.call_tool("await_stopped", {"token": order.token})
        outcome = await abandoned(call)
        return {"begun": begun.structuredContent, "outcome": outcome, "stopped": stopped.structuredContent}


async def killed(order: Order) -> Observed:
    async with connected(order) as session:
        return {"survived": str(await session.call_tool("slow", {"token": order.token}))}


drive(
    {
        "list": listing, "call": calling, "page": listing, "change": changing, "cancel": cancelling, "killed": killed,
        "ask": asking,
    }
)  # fmt: skip
