"""The gateway and a real authorization server over https, by an authority that only ``ca_file`` knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.authorization import servers
from tests.authorization.servers import OidcProvider, Resource
from tests.authorization.stand import RESOURCE
from tests.authorization.test_real_servers import BACKEND, SCOPE, gateway
from tests.tls import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[OidcProvider]:
    resources = (Resource(RESOURCE, (SCOPE,)), Resource(BACKEND, (SCOPE,)))
    with servers.oidc_provider(resources, authority) as server:
        yield server


async def test_its_tokens_count_and_are_exchanged_where_its_authority_is_named(
    server: OidcProvider, authority: Authority
) -> None:
    client = server.exchanger
    exchange = (
        f"{{mode: token_exchange, client_id: {client.id}, client_secret: '{client.secret}', resource: '{BACKEND}'}}"
    )
    issuer = f"auth.issuers=[{{issuer: '{server.issuer}', ca_file: '{authority.file}'}}]"
    knobs = (f"backend.credentials={exchange}", "backend.listing.credentials.mode=none")
    async with gateway(server, issuer, *knobs) as behind:
        issued = await server.client_credentials(resource=RESOURCE, scope=SCOPE)
        assert (await behind.call(issued.token)).json["result"] == {"sum": 3}
        assert behind.shown != issued.token


async def test_without_it_none_of_them_counts_and_no_key_is_fetched(server: OidcProvider) -> None:
    await server.forget()
    issued = await server.client_credentials(resource=RESOURCE, scope=SCOPE)
    async with gateway(server) as behind:
        answer = await behind.call(issued.token)
        assert (answer.status, "WWW-Authenticate" in answer.headers) == (503, False)
        assert behind.backend.calls("add") == 0
    assert (await server.fetches("metadata"), await server.fetches("jwks")) == (0, 0)
