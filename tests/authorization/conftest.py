"""One process of each server for the whole test run, as after its start at the beginning of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest

from tests.authorization import servers
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.servers import MockServer, OidcProvider, Resource

Provider: TypeAlias = Callable[..., Awaitable[OidcProvider]]


@pytest.fixture(scope="session")
def _oidc_providers() -> Iterator[Callable[[tuple[Resource, ...]], OidcProvider]]:
    running: dict[tuple[Resource, ...], OidcProvider] = {}
    with ExitStack() as stack:

        def provider(resources: tuple[Resource, ...]) -> OidcProvider:
            if resources not in running:
                running[resources] = stack.enter_context(servers.oidc_provider(resources))
            return running[resources]

        yield provider


@pytest.fixture
def oidc_provider(_oidc_providers: Callable[[tuple[Resource, ...]], OidcProvider]) -> Provider:
    """``await oidc_provider(resource, ...)``: the same resources are the same server."""

    async def provider(*resources: Resource) -> OidcProvider:
        server = _oidc_providers(resources)
        await server.reset()
        return server

    return provider


@pytest.fixture(scope="session")
def _mock_server() -> Iterator[MockServer]:
    with servers.mock_server() as server:
        yield server


@pytest.fixture
async def mock_server(_mock_server: MockServer) -> MockServer:
    await _mock_server.reset()
    return _mock_server


@pytest.fixture
async def issuer() -> AsyncIterator[ForgedIssuer]:
    async with ForgedIssuer() as issuer:
        yield issuer
