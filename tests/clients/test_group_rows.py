"""The official clients list and call a group of three real services: with an API key, and after a login by OAuth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider

from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import add_key
from gateway.config.source import load_settings
from gateway.process.server import Server
from gateway.settings.auth import ApiKey
from tests.authorization.person import METADATA, Browser, Storage, connected, npm_login
from tests.authorization.servers import OidcProvider, Resource, oidc_provider
from tests.services import launch
from tests.services.launch import ARIA2_SECRET
from tests.services.process import Service, free_port

pytestmark = pytest.mark.timeout(600)  # the first test of a client may have to install it

CLIENTS: Final = (
    ("python", "auto"), ("python", "legacy"), ("sdk", "legacy"), ("client", "auto"), ("client", "legacy"),
)  # fmt: skip
"""PyPI mcp 2, npm sdk 1 and npm client 2, in the eras that each speaks."""
CALLED: Final = (
    ("books_add", {"a": 2, "b": 3}),
    ("site_echo", {"data": "grüße"}),
    ("files_aria2_getVersion", {}),
)
"""A tool of each service, as models know it, with arguments."""
SCOPE: Final = "tools:read"


@dataclass(frozen=True)
class Place:
    """A gateway before the three services, and who may call there: the bearer of ``key``, and who logs in."""

    url: str
    key: str
    oidc: OidcProvider


@pytest.fixture(scope="module")
def services() -> Iterator[dict[str, Service]]:
    with launch.openrpc_app() as books, launch.fastapi_app() as site, launch.aria2() as files:
        yield {"books": books, "site": site, "files": files}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def oidc(port: int) -> Iterator[OidcProvider]:
    with oidc_provider([Resource(f"http://127.0.0.1:{port}/all/mcp", (SCOPE,))]) as server:
        yield server


@asynccontextmanager
async def place(
    services: dict[str, Service], port: int, oidc: OidcProvider, folder: Path, *knobs: str
) -> AsyncIterator[Place]:
    key, file = new_key(), folder / "keys.yaml"
    add_key(file, ApiKey(name="ann", sha256=digest_of(key), scopes=(SCOPE,)))
    secret = f"{{mode: static, send: {{params: ['token:{ARIA2_SECRET}']}}}}"
    own = [f"services.{name}.backend.url={service.url}" for name, service in services.items()]
    sent = [f"services.{name}.backend.credentials.mode=none" for name in ("books", "site")]
    ground = (
        f"server.port={port}", "server.admin_port=0", f"server.public_url=http://127.0.0.1:{port}",
        f"auth.issuers=[{{issuer: '{oidc.issuer}'}}]", f"auth.keys.file={file}", f"auth.scopes.list=[{SCOPE}]",
        f"services.files.backend.credentials={secret}", "services.files.backend.listing.dialect=introspection",
        "groups.all.services='*'", *own, *sent, *knobs,
    )  # fmt: skip
    server = Server(load_settings(None, ground, environ={}))
    await server.start()
    try:
        await server.wait_until_listed()
        await oidc.reset()
        yield Place(f"http://127.0.0.1:{port}/all/mcp", key, oidc)
    finally:
        await server.stop()


class Key(httpx2.Auth):
    """Show an API key with each request."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._key}"
        yield request


async def by_python(at: Place, era: str, way: str) -> dict[str, Any]:
    """What :func:`npm_login` does, by the Python client."""
    browser = Browser(at.oidc.visit)
    auth: httpx2.Auth = Key(at.key)
    if way == "OAuth":
        auth = OAuthClientProvider(at.url, METADATA.model_copy(), Storage(), browser.open, browser.callback)
    async with connected(at.url, auth, era) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        results = [await client.call_tool(*call) for call in CALLED] if "search_tools" not in tools else []
        return {"tools": tools, "failed": any(result.is_error for result in results), "logins": browser.visits}


async def used(at: Place, client: str, era: str, way: str) -> dict[str, Any]:
    if client == "python":
        return await by_python(at, era, way)
    *more, (tool, arguments) = CALLED
    key = at.key if way == "key" else None
    return await npm_login(
        at.oidc.visit, client=client, era=era, url=at.url, tool=tool, arguments=arguments, more=more, key=key
    )


@pytest.mark.parametrize("way", ["key", "OAuth"])
@pytest.mark.parametrize(("client", "era"), CLIENTS)
async def test_a_client_lists_and_calls_three_services_at_one_address(
    client: str, era: str, way: str, services: dict[str, Service], port: int, oidc: OidcProvider, tmp_path: Path
) -> None:
    async with place(services, port, oidc, tmp_path, "groups.all.catalog.search=false") as at:
        did = await used(at, client, era, way)
    assert "failure" not in did, did["failure"]
    assert {name for name, _ in CALLED} <= {*did["tools"]}
    assert {name.partition("_")[0] for name in did["tools"]} == {*services}
    assert not did["failed"], did
    assert did["logins"] == (way == "OAuth")


async def test_with_search_on_a_client_lists_two_tools(
    services: dict[str, Service], port: int, oidc: OidcProvider, tmp_path: Path
) -> None:
    async with place(services, port, oidc, tmp_path, "groups.all.catalog.search=true") as at:
        assert (await by_python(at, "auto", "key"))["tools"] == ["call_tool", "search_tools"]
