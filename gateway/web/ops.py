"""The admin port: health, and listing anew. Any host may ask, no token is looked at; keep it away from the public."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from gateway.background import Background
from gateway.text import printable


def admin_application(
    unready: Callable[[], str | None], background: Background, renew: Callable[[], Awaitable[str]]
) -> web.Application:
    """``/livez`` is 200 while the loop turns. ``/readyz`` is 503 with the reason while ``unready`` gives one, and with
    ``?verbose`` has a line for each piece of background work. That one of these ended does not make it unready: it is
    started again, and calls are served meanwhile. ``POST /refresh`` is 200 once ``renew`` has listed anew, and 502 with
    the reason that it gives where there is no new listing."""

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        reason = unready()
        lines = [reason or "ok", *(background.describe() if "verbose" in request.query else ())]
        return web.Response(status=200 if reason is None else 503, text="".join(f"{line}\n" for line in lines))

    async def refresh(request: web.Request) -> web.Response:
        if "Origin" in request.headers:  # a page in a browser on this machine reaches the port too
            return web.Response(status=403, text="not for pages in browsers\n")
        trouble = printable(await renew())  # a stranger's words, perhaps on a terminal
        return web.Response(status=502, text=f"{trouble}\n") if trouble else web.Response(text="ok\n")

    application = web.Application()
    application.router.add_get("/livez", livez)
    application.router.add_get("/readyz", readyz)
    application.router.add_post("/refresh", refresh)
    return application
