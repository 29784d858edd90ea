"""The yardstick: the least an aiohttp proxy can do. ``python -m tests.bench.bare_proxy PORT BACKEND_URL``"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import aiohttp
import uvloop
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def application(backend: str) -> web.Application:
    """One handler: read the body, post it, give back what comes."""
    key = web.AppKey("session", aiohttp.ClientSession)

    async def session(app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as shared:
            app[key] = shared
            yield

    async def relay(request: web.Request) -> web.Response:
        headers = {"Content-Type": "application/json"}
        async with request.app[key].post(backend, data=await request.read(), headers=headers) as answer:
            return web.Response(body=await answer.read(), status=answer.status, content_type="application/json")

    app = web.Application()
    app.cleanup_ctx.append(session)
    app.router.add_post("/jsonrpc", relay)
    return app


if __name__ == "__main__":
    uvloop.install()
    web.run_app(application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
