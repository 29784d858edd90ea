"""Official clients get from a bare 401 to a call at a Drupal site: its metadata name it with another slash than its
tokens, and each client is told its client id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from aiohttp import ClientSession
from mcp.client.auth import OAuthClientProvider, OAuthRegistrationError

from gateway.config.source import load_settings
from gateway.process.server import Server
from tests.authorization.drupal_site import CONSUMER, JWKS, DrupalSite, Permitted
from tests.authorization.person import METADATA, REDIRECT, Browser, Storage, connected, npm_login
from tests.each import each
from tests.fault.methods import ADD, ECHO
from tests.fault.scripted import ScriptedBackend
from tests.services.process import free_port
from tests.waiting import until

READ: Final = "content:read"
ORDER: Final = "orders:write"
CLIENTS: Final = [("python", "auto"), ("python", "legacy"), ("client", "auto"), ("client", "legacy"), ("sdk", "legacy")]
SLASHES: Final = {"tokens have it": ("", "/"), "metadata have it": ("/", ""), "both have it": ("/", "/")}


@asynccontextmanager
async def drupal(slash: str = "", token_slash: str = "/") -> AsyncIterator[tuple[str, DrupalSite]]:
    """The gateway of docs/drupal.md in front of a site, and its URL."""
    port = free_port()
    site = DrupalSite(REDIRECT, scopes=(READ, ORDER), slash=slash, token_slash=token_slash)
    async with site, ScriptedBackend([ADD, ECHO]) as backend:
        backend.on("rpc.discover", Permitted((ECHO, READ), (ADD, ORDER)))
        knobs = (
            f"backend.url={backend.url}", "backend.listing.dialect=openrpc", "backend.listing.identity=caller",
            f"backend.credentials.backend_audience={CONSUMER}", f"server.port={port}", "server.admin_port=0",
            f"server.public_url=http://127.0.0.1:{port}",
            f"auth.issuers=[{{issuer: '{site.issuer}', preset: simple_oauth, audiences: [{CONSUMER}],"
            f" metadata: {{jwks_uri: '{site.base}{JWKS}'}}}}]",
            f"auth.scopes={{list: [{READ}], call: [{READ}], challenge: all}}",
            f"catalog.tools.add.scopes=[{ORDER}]",
        )  # fmt: skip
        gateway = Server(load_settings(None, knobs, environ={}))
        await gateway.start()
        try:
            yield f"http://127.0.0.1:{port}/mcp", site
        finally:
            await gateway.stop()


async def named(url: str) -> str:
    """The issuer in the gateway's own metadata."""
    place = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    async with ClientSession() as session, session.get(place) as answer:
        [issuer] = (await answer.json())["authorization_servers"]
        return str(issuer)


async def login(client: str, era: str, url: str, site: DrupalSite) -> dict[str, Any]:
    """The tools that a client with the consumer's id is listed, and whether its call of ``add`` failed."""
    if client != "python":
        order = {"client": client, "era": era, "url": url, "clientId": CONSUMER}
        return await npm_login(site.visit, tool="add", arguments={"a": 2, "b": 3}, **order)
    browser = Browser(site.visit)
    auth = OAuthClientProvider(url, METADATA.model_copy(), Storage(CONSUMER), browser.open, browser.callback)
    async with connected(url, auth, era) as session:
        tools = [tool.name for tool in (await session.list_tools()).tools]
        result = await session.call_tool("add", {"a": 2, "b": 3})
        return {"tools": tools, "failed": result.is_error}


@each("slashes", SLASHES)
@each(("client", "era"), CLIENTS)
async def test_a_client_that_is_told_its_id_logs_in_and_calls_what_a_scope_lends(
    client: str, era: str, slashes: tuple[str, str]
) -> None:
    async with drupal(*slashes) as (url, site):
        await until(lambda: named(url), lambda name: name == site.metadata["issuer"])
        did = await login(client, era, url, site)
        assert "failure" not in did, did["failure"]
        assert (sorted(did["tools"]), did["failed"]) == (["add", "echo"], False)


async def test_without_a_client_id_no_client_gets_in() -> None:
    async with drupal() as (url, site):
        await until(lambda: named(url), lambda name: name == site.metadata["issuer"])
        browser = Browser(site.visit)
        auth = OAuthClientProvider(url, METADATA.model_copy(), Storage(), browser.open, browser.callback)
        with pytest.raises(BaseExceptionGroup) as failure:
            async with connected(url, auth, "auto"):
                pass
        assert failure.group_contains(OAuthRegistrationError)
        order = {"client": "client", "era": "auto", "url": url, "tool": "add", "arguments": {}}
        assert "registration" in (await npm_login(site.visit, **order))["failure"]
