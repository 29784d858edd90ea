"""Services behind one public port, each before a backend of its own, without a gateway around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from aiohttp import ClientSession
from gateway.app import SERVER_NAME, Current, pipeline
from gateway.guard import authenticator_of, metadata_of

from gateway.auth.metadata import PREFIX
from gateway.catalog.changes import Changes
from gateway.catalog.pages import Pages
from gateway.config import load
from gateway.limits import Budget, Streams
from gateway.mcp.cursors import Cursors
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Operations
from gateway.mcp.server_info import Introduction
from gateway.mcp.sessions import Sessions
from gateway.uses import Uses
from gateway.web.connection import Port, listen
from gateway.web.public import AddressReader, Origins, PublicHandler
from gateway.web.site import Site
from tests.fault.methods import ADD, ECHO, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import ground
from tests.protocol.talk import Client

PUBLIC = "https://gw.example.net"
TOKENS = ("auth.issuers=[{issuer: 'https://issuer.example.net'}]", "backend.credentials.mode=none")
"""Knobs of a service that asks for tokens."""


@dataclass(frozen=True)
class Mounted:
    """One service of several."""

    site: Site
    uses: Uses
    backend: ScriptedBackend
    client: Client


@dataclass(frozen=True)
class Several:
    """``crm`` has the tool ``add``, ``shop`` the tool ``echo``; ``root`` asks for paths below no mount."""

    handler: PublicHandler
    port: Port
    root: Client
    crm: Mounted
    shop: Mounted


@asynccontextmanager
async def site_of(mount: str, url: str, uses: Uses, *knobs: str) -> AsyncIterator[Site]:
    settings = load(None, ground(url, f"server.public_url={PUBLIC}{mount}", *knobs), environ={})
    parts = await pipeline(Current(settings))
    budget, changes = Budget(parts.store, "discovery", settings.limits.discovery), Changes(lambda: 0, 60)
    operations = Operations(
        parts.discovery, Pages(), budget, Cursors(parts.keys, budget), lambda: settings.catalog,
        Introduction(settings.mcp.server, SERVER_NAME, "1"), changes, Streams(lambda: settings.limits.streams),
        60, parts.access, settings.backend.max_response,
    )  # fmt: skip
    metadata = metadata_of(settings, parts.access, SERVER_NAME)
    endpoint = Endpoint(operations, parts.invocation, Sessions(parts.keys, parts.store))
    try:
        yield Site(
            mount, endpoint=endpoint, operations=operations, invocation=parts.invocation, discovery=parts.discovery,
            access=parts.access, authenticator=authenticator_of(settings, parts.trust, parts.access, parts.store),
            metadata=metadata and replace(metadata, paths=(f"{PREFIX}{mount}/mcp",)),
            rest_page_size=settings.catalog.rest_page_size, max_body=settings.server.max_body,
            body_timeout=settings.server.body_timeout, uses=uses,
        )  # fmt: skip
    finally:
        changes.close()
        await endpoint.close()
        await parts.close()


@asynccontextmanager
async def several(*shop: str) -> AsyncIterator[Several]:
    """Two services; ``shop`` are knobs of the second."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(ClientSession())
        handler = PublicHandler(AddressReader(()), Origins(PUBLIC, (), ()))
        port = await listen(handler, "127.0.0.1", 0, 0.1)
        stack.push_async_callback(port.close)

        async def mounted(mount: str, methods: Sequence[Rpc], *knobs: str) -> Mounted:
            backend, uses = await stack.enter_async_context(ScriptedBackend(methods)), Uses()
            site = await stack.enter_async_context(site_of(mount, backend.url, uses, *knobs))
            return Mounted(site, uses, backend, Client(session, port.number, mount))

        one, other = await mounted("/crm", [ADD]), await mounted("/shop", [ECHO], *shop)
        handler.sites = {"/crm": one.site, "/shop": other.site}
        yield Several(handler, port, Client(session, port.number), one, other)
