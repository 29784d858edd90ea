"""Three real services in one process, each a protected resource, and two real authorization servers.

    with stage() as real:
        async with several(real) as it:
            await it.clients["books"].call(MODERN, "add", {"a": 2, "b": 3})

``books`` is PyPI openrpc, known to oauth2-mock-server. ``site`` is a Drupal that shows each of its users another list
and takes their tokens; ``files`` is aria2. Both are known to oidc-provider.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import ClientSession

from gateway.process.server import Server
from gateway.settings import Settings
from gateway.settings.services import inherit
from tests.authorization.servers import MockServer, OidcProvider, Resource, mock_server, oidc_provider
from tests.authorization.stand import PUBLIC, Bearer, running
from tests.services import launch
from tests.services.launch import ARIA2_SECRET, Drupal
from tests.services.process import Service

NAMES: Final = ("books", "site", "files")
PERSON: Final = "editor"
"""Who has a token for each of the three."""
SCOPES: Final = ("tutorial:read", "tutorial:search")
"""What the site's tools ask for."""
RESOURCES: Final = {name: f"{PUBLIC}/{name}/mcp" for name in NAMES}
METADATA: Final = {name: f"/.well-known/oauth-protected-resource/{name}/mcp" for name in NAMES}
CALLED: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "books": ("add", {"a": 2, "b": 3}),
    "site": ("examples.contentTypes.list", {}),
    "files": ("aria2.getVersion", {}),
}
"""A tool of each, with arguments."""


@dataclass(frozen=True)
class Stage:
    """The three services and the two authorization servers, all running."""

    books: Service
    site: Drupal
    files: Service
    mock: MockServer
    oidc: OidcProvider

    async def token(self, name: str, person: str = PERSON) -> str:
        """A new access token of somebody for a service."""
        if name == "books":
            return await self.minted(name, person)
        return (
            await self.oidc.authorization_code(resource=RESOURCES[name], scope=" ".join(SCOPES), person=person)
        ).token

    async def minted(self, name: str, person: str = PERSON) -> str:
        """One for whatever service, by the server that is trusted for ``books`` alone."""
        claims = {"aud": RESOURCES[name], "sub": person, "client_id": "public", "jti": "1"}
        return await self.mock.mint(claims, {"typ": "at+jwt"})

    def tree(self, public_url: str | None = PUBLIC, **services: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration; ``services`` have knobs on top of each service's own, or are further ones."""
        oidc = {"issuers": [{"issuer": self.oidc.issuer}]}
        site = {"mode": "same_resource", "backend_audience": RESOURCES["site"]}
        own: dict[str, Any] = {
            "books": {
                "backend": {"url": self.books.url, "listing": {"dialect": "openrpc"}, "credentials": {"mode": "none"}},
                "auth": {"issuers": [{"issuer": self.mock.issuer}]},
            },
            "site": {
                "backend": {"url": self.site.url, "listing": {"dialect": "jsonrpc_mcp"}, "credentials": site},
                "auth": oidc,
            },
            "files": {
                "backend": {
                    "url": self.files.url,
                    "listing": {"dialect": "introspection"},
                    "credentials": {"mode": "static", "send": {"params": [f"token:{ARIA2_SECRET}"]}},
                },
                "auth": oidc,
            },
        }
        return {
            "server": {"port": 0, "admin_port": 0, "public_url": public_url},
            "catalog": {"page_size": 1},
            "limits": {"discovery": "100000/minute", "invocation": "100000/minute"},
            "mcp": {"heartbeat": "1s"},  # readers of streams give up one that is silent for long
            "services": inherit(own, services),
        }


@contextmanager
def stage() -> Iterator[Stage]:
    """Start them all; no two tests may use them at one time, since some stop them."""
    resources = [Resource(RESOURCES[name], SCOPES) for name in ("site", "files")]
    with (
        mock_server() as mock,
        oidc_provider(resources) as oidc,
        launch.openrpc_app() as books,
        launch.aria2() as files,
        launch.drupal(mcp=True, jwks=oidc.jwks_uri, audience=RESOURCES["site"]) as site,
    ):
        yield Stage(books, site, files, mock, oidc)


@dataclass(frozen=True)
class Several:
    """A gateway before the three, with a client at each, whose token is good there."""

    stage: Stage
    server: Server
    session: ClientSession
    clients: Mapping[str, Bearer]

    def client(self, name: str, token: str | None) -> Bearer:
        return Bearer(self.session, self.server.port, token, f"/{name}")

    @property
    def root(self) -> Bearer:
        return Bearer(self.session, self.server.port, None)

    async def ready(self, query: str = "") -> tuple[int, list[str]]:
        """What ``/readyz`` says."""
        answer = await Bearer(self.session, self.server.admin_port, None).get(f"/readyz{query}")
        return answer.status, answer.body.decode().splitlines()


@asynccontextmanager
async def several(
    stage: Stage, public_url: str | None = PUBLIC, **services: Mapping[str, Any]
) -> AsyncIterator[Several]:
    """A gateway with :meth:`Stage.tree`."""
    made = Settings.model_validate(stage.tree(public_url, **services))
    async with ClientSession() as session, running(made) as server:
        clients = {name: Bearer(session, server.port, await stage.token(name), f"/{name}") for name in NAMES}
        yield Several(stage, server, session, clients)
