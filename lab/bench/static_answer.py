"""The yardstick for tools/list, a file from memory: ``python -m lab.bench.static_answer PORT FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop
from aiohttp import web


def application(body: bytes) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_post("/mcp", answer)
    return app


if __name__ == "__main__":
    content = Path(sys.argv[2]).read_bytes()
    uvloop.install()
    web.run_app(application(content), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
