"""The yardstick: the least an aiohttp proxy can do. ``python -m lab.bench.bare_proxy PORT SERVICE_URL...``

Each URL is relayed to from its own path."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import uvloop
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SESSION = web.AppKey("session", aiohttp.ClientSession)
_HEADERS = {"Content-Type": "application/json"}


async def _session(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as shared:
        app[_SESSION] = shared
        yield


async def _relay(url: str, request: web.Request) -> web.Response:
    async with request.app[_SESSION].post(url, data=await request.read(), headers=_HEADERS) as answer:
        return web.Response(body=await answer.read(), status=answer.status, content_type="application/json")


def application(urls: list[str]) -> web.Application:
    """A handler for each URL: read the body, post it, give back what comes."""
    app = web.Application()
    app.cleanup_ctx.append(_session)
    for url in urls:
        app.router.add_post(urlsplit(url).path, partial(_relay, url))
    return app


if __name__ == "__main__":
    uvloop.install()
    web.run_app(application(sys.argv[2:]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
