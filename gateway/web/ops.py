"""The admin port: health. Any host may ask, no token is looked at; keep it away from the public."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web


def admin_application(unready: Callable[[], str | None]) -> web.Application:
    """``/livez`` is 200 while the loop turns; ``/readyz`` is 503 with the reason while ``unready`` gives one."""

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = unready()
        return web.Response(text="ok\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    application = web.Application()
    application.router.add_get("/livez", livez)
    application.router.add_get("/readyz", readyz)
    return application
