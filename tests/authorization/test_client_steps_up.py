"""Official clients get from nothing to a tool with a scope of its own: the demo's example, at an authorization server
that holds each client to the scopes of its registration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from mcp.client.auth import OAuthClientProvider

from tests.authorization import demo
from tests.authorization.conftest import Provider
from tests.authorization.demo import ORDER, READ
from tests.authorization.person import METADATA, Browser, Declined, Storage, connected, npm_login
from tests.authorization.servers import OidcProvider, Resource
from tests.each import each
from tests.services.process import free_port

COPIES: Final = {"isbn": "9780142437247", "copies": 2}
BOOKS: Final = ["books_get", "books_search"]
CLIENTS: Final = [(client, era) for client in ("python", "client") for era in ("auto", "legacy")]
SDK: Final = ("sdk", "legacy")


@asynccontextmanager
async def shop(provider: Provider, *knobs: str) -> AsyncIterator[tuple[str, OidcProvider]]:
    """The demo's example with more knobs: its URL, and the authorization server."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    server = await provider(Resource(url, (READ, ORDER)))
    async with demo.bookshop(server, url) as backend, demo.gateway(server.issuer, backend, port, *knobs):
        yield url, server


async def python_login(url: str, server: OidcProvider, mode: str, client_id: str | None = None) -> dict[str, Any]:
    """What :func:`npm_login` does, by the Python client."""
    browser, storage = Browser(server.visit), Storage(client_id)
    auth = OAuthClientProvider(url, METADATA.model_copy(), storage, browser.open, browser.callback)
    async with connected(url, auth, mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("orders_create", COPIES)
        return {"tools": tools, "failed": result.is_error, "logins": browser.visits}


async def login(client: str, era: str, url: str, server: OidcProvider, client_id: str | None = None) -> dict[str, Any]:
    if client == "python":
        return await python_login(url, server, era, client_id)
    order = {"url": url, "tool": "orders_create", "arguments": COPIES, "clientId": client_id}
    return await npm_login(server.visit, client=client, era=era, **order)


@each(("client", "era"), [*CLIENTS, SDK])
async def test_a_client_that_registers_itself_orders_a_book(client: str, era: str, oidc_provider: Provider) -> None:
    async with shop(oidc_provider, "auth.scopes.show=all") as (url, server):
        did = await login(client, era, url, server)
        assert "failure" not in did, did["failure"]
        assert (did["tools"], did["failed"], did["logins"]) == ([*BOOKS, "orders_create"], False, 1)
        assert await server.fetches("registration") == 1


@each(("client", "era"), CLIENTS)
async def test_a_client_that_is_known_there_is_asked_for_more_when_it_orders(
    client: str, era: str, oidc_provider: Provider
) -> None:
    async with shop(oidc_provider, "auth.scopes.show=all", "auth.scopes.challenge=least") as (url, server):
        did = await login(client, era, url, server, server.public.id)
        assert "failure" not in did, did["failure"]
        assert (did["tools"], did["failed"], did["logins"]) == ([*BOOKS, "orders_create"], False, 2)
        assert await server.fetches("registration") == 0


async def test_some_clients_get_no_more_than_they_asked_for_at_first(oidc_provider: Provider) -> None:
    """Which is what ``challenge: all`` is for."""
    async with shop(oidc_provider, "auth.scopes.show=all", "auth.scopes.challenge=least") as (url, server):
        for client, era in (CLIENTS[-1], SDK):
            assert "invalid_scope" in (await login(client, era, url, server))["failure"]
        with pytest.raises(BaseExceptionGroup) as failure:
            await login(*CLIENTS[0], url, server)
        assert failure.group_contains(Declined, match="invalid_scope")
        # One that is known there asks with its refresh token, which never brings more (RFC 6749 §6).
        known = await login(*SDK, url, server, server.public.id)
        assert "403 after trying upscoping" in known["failure"]
