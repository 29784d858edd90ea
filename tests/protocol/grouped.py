"""Several services in one gateway, and a group of them, each before a backend of its own.

async with grouped(crm=[ADD], shop=[ECHO]) as it:
    assert await it.names() == ["crm.add", "shop.echo"]
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import ClientSession

from gateway.config.source import load_settings
from gateway.process.server import Server
from gateway.store import ServerStore
from tests.authorization.stand import Bearer, tools_in
from tests.fault.methods import ADD, ECHO, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.http_servers import gateway_of, served
from tests.protocol.official import MODERN

GROUP = "all"
USUAL: Mapping[str, Sequence[Rpc]] = {"crm": [ADD], "shop": [ECHO]}
_FREE = ("server.port=0", "server.admin_port=0", "limits.discovery=100000/minute", "limits.invocation=100000/second",
         "limits.concurrent=10000")  # fmt: skip


@dataclass(frozen=True)
class Grouped:
    """All of it, running."""

    gateway: Server
    backends: Mapping[str, ScriptedBackend]
    session: ClientSession
    knobs: Sequence[str]

    def client(self, token: str | None = None, at: str = GROUP) -> Bearer:
        return Bearer(self.session, self.gateway.port, token, f"/{at}")

    async def names(self, surface: str = MODERN, token: str | None = None) -> list[str]:
        return list(tools_in(await self.client(token).list(surface)))

    async def reload(self, *knobs: str) -> None:
        """What a changed file does: ``knobs`` on top of those that the gateway began with."""
        await self.gateway.reload(load_settings(None, [*self.knobs, *knobs], environ={}))


@asynccontextmanager
async def grouped(
    *knobs: str,
    services: Mapping[str, Sequence[Rpc]] = USUAL,
    members: str = "'*'",
    store: ServerStore | None = None,
) -> AsyncIterator[Grouped]:
    """Services with these methods and the group ``all`` of them, open to all unless ``knobs`` say who may call."""
    async with AsyncExitStack() as stack:
        backends = {name: await stack.enter_async_context(ScriptedBackend(it)) for name, it in services.items()}
        auth = () if any(knob.startswith("auth.") for knob in knobs) else ("auth.mode=off",)
        urls = [f"services.{name}.backend.url={backend.url}" for name, backend in backends.items()]
        ground = [*_FREE, *auth, *urls, f"groups.{GROUP}.services={members}", *knobs]
        client = await stack.enter_async_context(served(load_settings(None, ground, environ={}), store))
        yield Grouped(gateway_of(client), backends, client.session, ground)
