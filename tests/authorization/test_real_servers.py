"""The gateway and real authorization servers: what they issue counts, and stops counting, as the specifications say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import ClientSession

from tests.authorization.conftest import Provider
from tests.authorization.forge import claims_of, dpop_proof, header_of
from tests.authorization.keys import ec_key
from tests.authorization.process import AuthorizationServer
from tests.authorization.rows import ARGUMENTS
from tests.authorization.servers import MockServer, Resource
from tests.authorization.stand import PUBLIC, RESOURCE, Bearer, running, settings
from tests.each import each
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import Answer

BACKEND: Final = "https://bookshop.example.com/jsonrpc"
"""What a backend that is a resource of its own requires of a token."""
SCOPE: Final = "tools:call"


class Behind:
    """A gateway, the backend behind it, and what a client says to it."""

    def __init__(self, session: ClientSession, port: int, backend: ScriptedBackend) -> None:
        self.backend = backend
        self._session = session
        self._port = port

    async def call(self, token: str) -> Answer:
        return await Bearer(self._session, self._port, token).call("jsonrpc", "add", ARGUMENTS)

    async def send(self, path: str, headers: Mapping[str, str]) -> Answer:
        return await Bearer(self._session, self._port, None).send("GET", path, None, headers)

    @property
    def shown(self) -> str:
        """The token of the last call, as the backend saw it."""
        (*_, last) = (sent for sent in self.backend.requests if sent.method == "add")
        return last.headers.get("Authorization", "").removeprefix("Bearer ")


@asynccontextmanager
async def gateway(server: AuthorizationServer, *knobs: str) -> AsyncIterator[Behind]:
    shared = "backend.listing.identity=shared"
    issuers: Any = [server]
    async with (
        ScriptedBackend([ADD]) as backend,
        ClientSession() as session,
        running(settings(backend.url, issuers, shared, *knobs)) as started,
    ):
        yield Behind(session, started.port, backend)


@each("alg", ["RS256", "ES256"])
async def test_a_token_for_the_resource_counts_whatever_its_algorithm(oidc_provider: Provider, alg: Any) -> None:
    server = await oidc_provider(Resource(RESOURCE, (SCOPE,), alg=alg), Resource(BACKEND, (SCOPE,), alg=alg))
    async with gateway(server, f"auth.scopes.call=[{SCOPE}]") as behind:
        issued = await server.client_credentials(resource=RESOURCE, scope=SCOPE)
        assert header_of(issued.token)["alg"] == alg
        assert (await behind.call(issued.token)).json["result"] == {"sum": 3}
        assert behind.shown == issued.token
        elsewhere = await server.client_credentials(resource=BACKEND, scope=SCOPE)
        assert (await behind.call(elsewhere.token)).status == 401
        without = await server.client_credentials(resource=RESOURCE)
        assert (await behind.call(without.token)).status == 403


async def test_an_opaque_token_counts_until_it_is_revoked(oidc_provider: Provider) -> None:
    server = await oidc_provider(Resource(RESOURCE, (SCOPE,), format="opaque"))
    client = server.resource_server
    asks = f"{{client_id: {client.id}, client_secret: '{client.secret}', cache: 0}}"
    issuer = f"{{issuer: '{server.issuer}', introspection: {asks}}}"
    async with gateway(server, f"auth.issuers=[{issuer}]") as behind:
        issued = await server.client_credentials(resource=RESOURCE, scope=SCOPE)
        assert "." not in issued.token
        assert (await behind.call(issued.token)).json["result"] == {"sum": 3}
        await server.revoke(issued.token)
        behind.backend.requests.clear()
        assert (await behind.call(issued.token)).status == 401
        assert behind.backend.requests == []


async def test_a_token_bound_to_a_key_counts_with_a_proof_by_that_key(oidc_provider: Provider) -> None:
    server = await oidc_provider(Resource(RESOURCE, (SCOPE,)))
    key, other = ec_key("client"), ec_key("other")
    async with gateway(server, "auth.dpop=accept", "backend.credentials.mode=none") as behind:
        issued = await server.client_credentials(resource=RESOURCE, scope=SCOPE, dpop=key)
        assert issued.type == "DPoP"
        path = "/mcp/tools/list"
        for prover, status in ((key, 200), (other, 401)):
            proof = dpop_proof(prover, "GET", PUBLIC + path, issued.token)
            answer = await behind.send(path, {"Authorization": f"DPoP {issued.token}", "DPoP": proof})
            assert answer.status == status
        assert (await behind.call(issued.token)).status == 401


async def test_a_backend_of_its_own_gets_a_token_of_its_own(oidc_provider: Provider) -> None:
    server = await oidc_provider(Resource(RESOURCE, (SCOPE,)), Resource(BACKEND, (SCOPE,)))
    client = server.exchanger
    exchange = (
        f"{{mode: token_exchange, client_id: {client.id}, client_secret: '{client.secret}', resource: '{BACKEND}'}}"
    )
    async with gateway(server, f"backend.credentials={exchange}", "backend.listing.credentials.mode=none") as behind:
        issued = await server.client_credentials(resource=RESOURCE, scope=SCOPE)
        for _ in range(2):
            assert (await behind.call(issued.token)).json["result"] == {"sum": 3}
        claims = claims_of(behind.shown)
        assert (claims["aud"], claims["sub"]) == (BACKEND, "machine")
        assert behind.shown != issued.token
        assert await server.fetches("token") == 2, "one for the client, one exchange for both calls"


_ACCESS: Final = {"sub": "ann", "client_id": "app", "jti": "1", "aud": RESOURCE}


@each(
    ("payload", "header", "status"),
    {
        "sound": (_ACCESS, {"typ": "at+jwt"}, 200),
        "typ": (_ACCESS, {}, 401),  # typ JWT, as that server has it of itself
        "aud": ({**_ACCESS, "aud": BACKEND}, {"typ": "at+jwt"}, 401),
        "exp": ({**_ACCESS, "exp": 1}, {"typ": "at+jwt"}, 401),
        "iss": ({**_ACCESS, "iss": "https://evil.example.com"}, {"typ": "at+jwt"}, 401),
        "no client": ({"sub": "ann", "aud": RESOURCE}, {"typ": "at+jwt"}, 401),
    },
)
async def test_what_a_server_can_be_made_to_say_counts_only_if_it_is_sound(
    mock_server: MockServer, payload: Mapping[str, Any], header: Mapping[str, Any], status: int
) -> None:
    async with gateway(mock_server) as behind:
        assert (await behind.call(await mock_server.mint(payload, header))).status == status


async def test_a_key_that_the_server_does_not_publish_signs_for_nobody(mock_server: MockServer) -> None:
    async with gateway(mock_server) as behind:
        forged = await mock_server.mint(_ACCESS, {"typ": "at+jwt"}, key=ec_key("unpublished"))
        assert (await behind.call(forged)).status == 401
        assert behind.backend.requests == [] or all(sent.method != "add" for sent in behind.backend.requests)
