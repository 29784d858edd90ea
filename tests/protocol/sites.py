"""Two services in one gateway, each before a backend of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.concurrency.background import UseCounter
from gateway.config.source import load_settings
from gateway.web.public import PublicHandler
from gateway.web.site import Site
from tests.fault.methods import ADD, ECHO
from tests.fault.scripted import ScriptedBackend
from tests.http_servers import gateway_of, served
from tests.protocol.talk import Client

PUBLIC = "https://gw.example.net"
TOKENS = ("auth.mode=jwt", "auth.issuers=[{issuer: 'https://issuer.example.net'}]", "backend.credentials.mode=none")
"""Knobs of a service that asks for tokens."""


@dataclass(frozen=True)
class Mounted:
    """One service of several."""

    site: Site
    uses: UseCounter
    backend: ScriptedBackend
    client: Client


@dataclass(frozen=True)
class Several:
    """``crm`` has the tool ``add``, ``shop`` the tool ``echo``; ``root`` asks for paths below no mount."""

    gateway: Any
    root: Client
    crm: Mounted
    shop: Mounted

    @property
    def handler(self) -> PublicHandler:
        handler: PublicHandler = self.gateway.handler
        return handler


@asynccontextmanager
async def several(*shop: str, page: str = "off") -> AsyncIterator[Several]:
    """Two services; ``shop`` are knobs of the second, ``page`` is that of the server."""
    async with ScriptedBackend([ADD]) as crm, ScriptedBackend([ECHO]) as other:
        knobs = (
            "server.port=0", "server.admin_port=0", f"server.public_url={PUBLIC}", f"server.page={page}",
            "auth.mode=off", f"services.crm.backend.url={crm.url}", f"services.shop.backend.url={other.url}",
            *(f"services.shop.{knob}" for knob in shop),
        )  # fmt: skip
        async with served(load_settings(None, knobs, environ={})) as client:
            server = gateway_of(client)

            def mounted(mount: str, backend: ScriptedBackend) -> Mounted:
                service = server.services[mount]
                return Mounted(service.site, service.uses, backend, Client(client.session, server.port, mount))

            root = Client(client.session, server.port)
            yield Several(server, root, mounted("/crm", crm), mounted("/shop", other))
