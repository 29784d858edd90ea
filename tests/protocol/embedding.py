"""The gateway as an application of aiohttp: within another one, and served as ``web.run_app`` does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient

from gateway.aiohttp_app import well_known

Open = Callable[[web.Application], Awaitable[TestClient[Any, Any]]]


def within(app: web.Application, prefix: str) -> web.Application:
    """Another application with a page of its own, which the gateway is a part of."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="a page")

    outer = web.Application()
    outer.router.add_get("/", page)
    outer.add_routes(well_known(app))
    outer.add_subapp(prefix, app)
    return outer


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[tuple[int, web.AppRunner]]:
    """The application as ``web.run_app`` serves it, with default arguments, and its port."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1], runner
    finally:
        await runner.cleanup()
