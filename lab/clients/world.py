"""The large listings that agent frameworks meet besides: of Kodi and of Ethereum."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from lab.reach.launch import kodi
from tests.clients.world import World, running
from tests.services.launch import NODE_PROJECT

_ETHEREUM: Final = NODE_PROJECT / "node_modules" / "@metamask" / "api-specs" / "dist" / "build" / "openrpc.json"


@asynccontextmanager
async def with_large_listings(world: World) -> AsyncIterator[World]:
    """Yield the same world with them. Raise :class:`~tests.services.process.ServiceMissing` where Kodi is missing."""
    service = kodi()
    async with AsyncExitStack() as stack:
        stack.callback(service.close)
        await asyncio.to_thread(service.start)
        listing = {"listing": {"dialect": "static", "file": str(_ETHEREUM)}}
        gateways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "kodi": ({"url": service.url}, {"search": False}),
            "ethereum": ({"url": service.url, **listing}, {"search": False}),
            "wanted": ({"url": service.url}, {}),
            "search": ({"url": service.url}, {"search": True}),
        }
        ports = {
            name: await stack.enter_async_context(running(world.scratch / f"{name}.yaml", backend, catalog))
            for name, (backend, catalog) in gateways.items()
        }
        yield replace(world, large=ports)
