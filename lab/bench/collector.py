"""A collector that throws spans away: ``python -m lab.bench.collector PORT``."""

from __future__ import annotations

import sys

from aiohttp import web


async def _receive(request: web.Request) -> web.Response:
    await request.read()
    return web.Response()


if __name__ == "__main__":
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/traces", _receive)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
