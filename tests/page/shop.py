"""The bookshop of the demo behind a gateway, and services with other listings, for a browser to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from gateway.cli.demo import Bookshop
from gateway.config.source import load_settings
from gateway.process.server import Server
from tests.fault.behaviours import result
from tests.fault.methods import openrpc
from tests.fault.scripted import ScriptedBackend

_SHOUT: Final = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
_BACKWARDS: Final = "\u202etxet sdrawkcab\u202c \u200b\u2066"
HOSTILE: Final = _SHOUT + _BACKWARDS
MANY: Final = 5_000


@dataclass(frozen=True)
class Looked:
    """A running gateway, and where its pages are."""

    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.server.admin_port}"


@asynccontextmanager
async def gateway(url: str, *knobs: str, name: str = "") -> AsyncIterator[Looked]:
    """``name`` makes it one of several services."""
    prefix = f"services.{name}." if name else ""
    ground = (f"{prefix}backend.url={url}", f"{prefix}backend.listing.dialect=openrpc", "server.port=0")
    ground += ("server.admin_port=0",)
    server = Server(load_settings(None, [*ground, "auth.mode=off", *knobs], environ={}))
    await server.start()
    try:
        await server.wait_until_listed()
        yield Looked(server)
    finally:
        await server.stop()


@asynccontextmanager
async def bookshop(*knobs: str, name: str = "") -> AsyncIterator[Looked]:
    service = await Bookshop().listen(0)
    try:
        async with gateway(f"http://127.0.0.1:{service.number}/jsonrpc", *knobs, name=name) as looked:
            yield looked
    finally:
        await service.close()


@asynccontextmanager
async def listing(methods: Sequence[Mapping[str, Any]], *knobs: str) -> AsyncIterator[Looked]:
    """A gateway in front of a service that lists these methods."""
    async with ScriptedBackend([]) as backend:
        info = {"title": HOSTILE, "version": HOSTILE, "description": HOSTILE}
        backend.on("rpc.discover", result(openrpc(()) | {"info": info, "methods": methods}))
        async with gateway(backend.url, *knobs) as looked:
            yield looked


def hostile() -> list[Mapping[str, Any]]:
    """Methods of which every text is an attack on the page, and one is a megabyte."""
    schema = {
        "type": "string",
        "description": HOSTILE,
        "default": HOSTILE,
        "enum": [HOSTILE, "</textarea>"],
        "title": HOSTILE,
    }
    params = [{"name": name, "description": HOSTILE, "schema": schema} for name in ("plain", HOSTILE)]
    named = {
        "summary": HOSTILE,
        "description": HOSTILE,
        "params": params,
        "result": {"name": HOSTILE, "schema": schema},
    }
    large = {"summary": HOSTILE * 8_000, "params": []}
    broken = {"params": [{"name": "x", "schema": {"$ref": f"#/{HOSTILE}"}}]}
    return [
        {"name": "books.get", **named},
        {"name": HOSTILE, **named},
        {"name": "large", **large},
        {"name": "broken", **broken},
    ]


def many() -> list[Mapping[str, Any]]:
    schema = {"type": "integer", "minimum": 0}
    return [
        {
            "name": f"{('books', 'orders', 'people', 'rooms')[number % 4]}.method{number:04}",
            "summary": f"Do the thing of number {number}",
            "params": [{"name": "id", "schema": schema}],
        }
        for number in range(MANY)
    ]
