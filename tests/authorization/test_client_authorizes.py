"""The official Python client finds its way from a bare 401 to a call, by OAuth alone: it is told nothing but the
gateway's address, and the browser is played by the authorization server's side of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

from gateway.config.source import load_settings
from gateway.process.server import Server
from tests.authorization.conftest import Provider
from tests.authorization.forge import claims_of, header_of
from tests.authorization.person import METADATA, Browser, Declined, Storage, connected
from tests.authorization.servers import OidcProvider, Resource
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.services.process import free_port


@dataclass
class Place:
    """A gateway before a backend, both of which take this server's tokens."""

    url: str
    server: OidcProvider
    backend: ScriptedBackend

    def shown(self) -> str:
        """The token that the backend saw with the last call."""
        (*_, last) = (sent for sent in self.backend.requests if sent.method == "add")
        return last.headers["Authorization"].removeprefix("Bearer ")


@pytest.fixture
async def place(oidc_provider: Provider) -> AsyncIterator[Place]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    server = await oidc_provider(Resource(url, ("tools:list", "tools:call")))
    async with ScriptedBackend([ADD]) as backend:
        knobs = (
            f"backend.url={backend.url}", "backend.listing.dialect=openrpc", f"server.port={port}",
            "server.admin_port=0", f"server.public_url=http://127.0.0.1:{port}",
            f"auth.issuers=[{{issuer: '{server.issuer}'}}]", f"backend.credentials.backend_audience={url}",
            "auth.scopes.list=[tools:list]", "auth.scopes.call=[tools:call]",
        )  # fmt: skip
        gateway = Server(load_settings(None, knobs, environ={}))
        await gateway.start()
        try:
            yield Place(url, server, backend)
        finally:
            await gateway.stop()


def machine(place: Place) -> ClientCredentialsOAuthProvider:
    """A client with a secret and an empty memory."""
    client, issuer = place.server.machine, place.server.issuer
    assert client.secret is not None
    return ClientCredentialsOAuthProvider(place.url, Storage(), client.id, client.secret, issuer=issuer)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_person_authorizes_a_client_that_registered_itself(place: Place, mode: str) -> None:
    browser, storage = Browser(place.server.visit), Storage()
    auth = OAuthClientProvider(place.url, METADATA, storage, browser.open, browser.callback)
    async with connected(place.url, auth, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        called = await client.call_tool("add", {"a": 2, "b": 3})
        assert not called.is_error
    # Once, since the gateway names at the start all that a client needs.
    assert browser.visits == await place.server.fetches("registration") == 1
    assert storage.tokens is not None
    claims = claims_of(storage.tokens.access_token)
    assert (claims["iss"], claims["aud"], claims["sub"]) == (place.server.issuer, place.url, "alice")
    assert set(claims["scope"].split()) == {"tools:list", "tools:call"}
    assert storage.client is not None
    assert claims["client_id"] == storage.client.client_id
    assert place.shown() == storage.tokens.access_token


async def test_a_person_who_declines_leaves_the_client_outside(place: Place) -> None:
    browser, storage = Browser(place.server.visit, declines=True), Storage()
    auth = OAuthClientProvider(place.url, METADATA, storage, browser.open, browser.callback)
    with pytest.raises(Declined):
        async with httpx2.AsyncClient(auth=auth) as http:
            await http.post(place.url, json={})
    assert storage.tokens is None
    assert place.backend.requests == []


async def test_a_machine_needs_no_person(place: Place) -> None:
    async with connected(place.url, machine(place), "auto") as client:
        assert not (await client.call_tool("add", {"a": 2, "b": 3})).is_error
    assert claims_of(place.shown())["sub"] == "machine"


async def test_a_token_by_a_new_key_is_good_at_once(place: Place) -> None:
    kids = []
    for _ in range(2):
        async with connected(place.url, machine(place), "auto") as client:
            assert not (await client.call_tool("add", {"a": 2, "b": 3})).is_error
        kids.append(header_of(place.shown())["kid"])
        await place.server.rotate()
    assert kids == ["RS256-1", "RS256-2"]
    assert await place.server.fetches("jwks") == 2
