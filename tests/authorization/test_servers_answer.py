"""The authorization servers that the gateway's tests rely on do what those tests take for granted."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import jwt
import pytest

from tests.authorization.answers import Answer, Kind
from tests.authorization.conftest import Provider
from tests.authorization.forge import claims_of, header_of
from tests.authorization.keys import ec_key
from tests.authorization.process import AuthorizationServer, Refused, require_package
from tests.authorization.servers import MockServer, Resource
from tests.each import each
from tests.services.process import ServiceMissing

MCP = Resource("http://127.0.0.1:8080/mcp", ("mcp:list", "mcp:call"))
BACKEND = Resource("http://127.0.0.1:8081/jsonrpc", ("mcp:call", "rpc"), alg="ES256", lifetime=60)
OPAQUE = Resource("http://127.0.0.1:8082/mcp", ("mcp:call",), format="opaque")
RESOURCES = MCP, BACKEND, OPAQUE


async def verified(server: AuthorizationServer, token: str, audience: str) -> dict[str, Any]:
    """The claims of a token, checked by PyJWT with the keys that the server publishes now."""
    keys = jwt.PyJWKSet.from_dict(await server.jwks())
    key = keys[header_of(token)["kid"]]
    claims: dict[str, Any] = jwt.decode(token, key, [key.algorithm_name], audience=audience, issuer=server.issuer)
    return claims


async def test_its_metadata_name_the_issuer_and_what_it_can_do(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    metadata = await server.metadata()
    assert metadata["issuer"] == server.issuer == server.base
    assert metadata["jwks_uri"] == server.jwks_uri
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert {"client_credentials", "authorization_code", "refresh_token"} <= set(metadata["grant_types_supported"])
    assert {"token_endpoint", "introspection_endpoint", "revocation_endpoint", "registration_endpoint"} <= set(metadata)


@each("resource", {"RS256": MCP, "ES256": BACKEND})
async def test_client_credentials_make_an_access_token_of_rfc_9068_for_one_resource(
    oidc_provider: Provider, resource: Resource
) -> None:
    server = await oidc_provider(*RESOURCES)
    issued = await server.client_credentials(resource=resource.identifier, scope="mcp:call unknown")
    assert header_of(issued.token) == {"alg": resource.alg, "typ": "at+jwt", "kid": f"{resource.alg}-1"}
    claims = await verified(server, issued.token, resource.identifier)
    assert claims["sub"] == claims["client_id"] == "machine"
    assert claims["scope"] == issued.scope == "mcp:call"
    assert claims["exp"] - claims["iat"] == resource.lifetime
    assert claims["aud"] == resource.identifier
    assert claims["jti"]


async def test_it_refuses_a_resource_that_it_does_not_know_and_a_wrong_secret(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    with pytest.raises(Refused) as refused:
        await server.client_credentials(resource="http://127.0.0.1:8080/other")
    assert (refused.value.status, refused.value.error) == (400, "invalid_target")
    with pytest.raises(Refused) as refused:
        await server.client_credentials(client=type(server.machine)("machine", "guessed"))
    assert (refused.value.status, refused.value.error) == (401, "invalid_client")


async def test_opaque_tokens_are_introspected_until_they_are_revoked(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    issued = await server.client_credentials(resource=OPAQUE.identifier, scope="mcp:call")
    assert "." not in issued.token
    answer = await server.introspect(issued.token)
    assert answer["active"] is True
    assert (answer["iss"], answer["aud"]) == (server.issuer, OPAQUE.identifier)
    assert (answer["client_id"], answer["scope"], answer["token_type"]) == ("machine", "mcp:call", "Bearer")
    assert await server.introspect(issued.token, server.exchanger) == {"active": False}
    await server.revoke(issued.token)
    assert await server.introspect(issued.token) == {"active": False}


async def test_a_token_asked_for_with_a_proof_is_bound_to_the_key(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    key = ec_key()
    issued = await server.client_credentials(resource=MCP.identifier, dpop=key)
    assert issued.type == "DPoP"
    assert (await verified(server, issued.token, MCP.identifier))["cnf"] == {"jkt": key.thumbprint}
    opaque = await server.client_credentials(resource=OPAQUE.identifier, dpop=key)
    assert (await server.introspect(opaque.token))["cnf"] == {"jkt": key.thumbprint}


async def test_the_authorization_code_flow_needs_no_browser(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    issued = await server.authorization_code(resource=MCP.identifier, scope="mcp:list mcp:call", person="bob")
    claims = await verified(server, issued.token, MCP.identifier)
    assert (claims["sub"], claims["client_id"], claims["scope"]) == ("bob", "public", "mcp:list mcp:call")
    form = {"grant_type": "refresh_token", "refresh_token": issued.body["refresh_token"], "resource": MCP.identifier}
    again = await server.token(form, server.public)
    assert (await verified(server, again.token, MCP.identifier))["sub"] == "bob"


async def test_a_person_may_decline(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    with pytest.raises(Refused) as refused:
        await server.authorization_code(resource=MCP.identifier, scope="mcp:list", person="deny")
    assert refused.value.error == "access_denied"


async def test_clients_register_themselves(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    answer = await server.register(
        client_name="a client",
        redirect_uris=["http://127.0.0.1:3030/callback"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
        application_type="native",
        scope="mcp:list mcp:call",
    )
    assert answer["client_id"] not in ("", "public")
    assert answer["scope"] == "mcp:list mcp:call"


async def test_a_token_is_exchanged_for_one_of_another_resource(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    mine = await server.authorization_code(resource=MCP.identifier, scope="mcp:list mcp:call")
    issued = await server.exchange(mine.token, resource=BACKEND.identifier)
    claims = await verified(server, issued.token, BACKEND.identifier)
    assert (claims["sub"], claims["client_id"], claims["act"]) == ("alice", "exchanger", {"sub": "exchanger"})
    assert claims["scope"] == issued.scope == "mcp:call"
    assert issued.body["issued_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    assert issued.lifetime == BACKEND.lifetime
    asked = await server.exchange(mine.token, audience=BACKEND.identifier, scope="rpc")
    assert asked.scope == "rpc"


async def test_an_exchanged_token_does_not_outlive_the_one_it_was_made_from(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    short = await server.client_credentials(resource=BACKEND.identifier, scope="mcp:call")
    issued = await server.exchange(short.token, resource=OPAQUE.identifier)
    assert issued.lifetime <= BACKEND.lifetime < OPAQUE.lifetime
    assert (await server.introspect(issued.token))["act"] == {"sub": "exchanger"}


async def test_an_opaque_token_is_exchanged_until_it_is_revoked(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    opaque = await server.client_credentials(resource=OPAQUE.identifier, scope="mcp:call")
    issued = await server.exchange(opaque.token, resource=BACKEND.identifier)
    assert (await verified(server, issued.token, BACKEND.identifier))["sub"] == "machine"
    await server.revoke(opaque.token)
    with pytest.raises(Refused) as refused:
        await server.exchange(opaque.token, resource=BACKEND.identifier)
    assert refused.value.error == "invalid_request"


async def test_an_exchange_is_refused_where_the_token_the_target_or_the_scope_is_wrong(
    oidc_provider: Provider, mock_server: MockServer
) -> None:
    server = await oidc_provider(*RESOURCES)
    mine = (await server.client_credentials(resource=MCP.identifier, scope="mcp:call")).token
    foreign = await mock_server.mint({"iss": server.issuer, "sub": "mallory"}, {"typ": "at+jwt", "kid": "RS256-1"})
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("invalid_request", {"subject_token": foreign, "resource": BACKEND.identifier}),
        ("invalid_target", {"subject_token": mine, "resource": "http://127.0.0.1:9/other"}),
        ("invalid_target", {"subject_token": mine, "resource": BACKEND.identifier, "audience": MCP.identifier}),
        ("invalid_target", {"subject_token": mine}),
        ("invalid_scope", {"subject_token": mine, "resource": BACKEND.identifier, "scope": "mcp:list"}),
    ]
    for error, request in wrong:
        with pytest.raises(Refused) as refused:
            await server.exchange(**request)
        assert refused.value.error == error, request


async def test_keys_overlap_while_they_rotate(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    before = await server.client_credentials(resource=MCP.identifier)
    opaque = await server.client_credentials(resource=OPAQUE.identifier)
    await server.rotate()
    after = await server.client_credentials(resource=MCP.identifier)
    assert [header_of(issued.token)["kid"] for issued in (before, after)] == ["RS256-1", "RS256-2"]
    for issued in (before, after):
        await verified(server, issued.token, MCP.identifier)
    await server.retire()
    assert {key["kid"] for key in (await server.jwks())["keys"]} == {"RS256-2", "ES256-2"}
    await verified(server, after.token, MCP.identifier)
    # What the server stored outlives its keys.
    assert (await server.introspect(opaque.token))["active"]


async def test_requests_are_counted_by_path(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    await server.jwks()
    await server.jwks()
    await server.metadata()
    assert (await server.fetches("jwks"), await server.fetches("metadata"), await server.fetches("/nowhere")) == (
        2,
        1,
        0,
    )
    assert await server.fetches() == 3


async def test_the_real_server_is_disturbed_and_restored(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    genuine = await server.jwks()
    await server.disturb("jwks", "500")
    with pytest.raises(Refused) as refused:
        await server.jwks()
    assert refused.value.status == 500
    await server.disturb("jwks", "reset")
    with pytest.raises(aiohttp.ClientConnectionError):
        await server.jwks()
    await server.disturb("jwks", "hold")
    fetching = asyncio.ensure_future(server.jwks())
    await server.held("jwks")
    assert not fetching.done()
    await server.restore()
    assert await fetching == await server.jwks() == genuine


async def test_a_disturbed_document_is_made_from_the_genuine_one(oidc_provider: Provider) -> None:
    server = await oidc_provider(*RESOURCES)
    genuine = await server.jwks()
    async with aiohttp.ClientSession() as session:
        kinds: tuple[tuple[Kind, int], ...] = ("huge", 1), ("bomb", 1), ("redirect", 2)
        for kind, documents in kinds:
            await server.forget()
            await server.disturb("jwks", kind)
            async with session.get(server.jwks_uri) as response:
                assert await response.json() == genuine
            assert await server.fetches() == documents, kind
        await server.disturb("jwks", "cut")
        with pytest.raises(aiohttp.ClientPayloadError):
            await server.jwks()
        await server.disturb("jwks", "list")
        async with session.get(server.jwks_uri) as response:
            assert await response.json() == []
        await server.disturb("jwks", Answer(418, {"X-Said": "yes"}, b"tea"))
        async with session.get(server.jwks_uri) as response:
            assert (response.status, response.headers["X-Said"], await response.read()) == (418, "yes", b"tea")


async def test_the_mock_signs_what_it_is_told(mock_server: MockServer) -> None:
    token = await mock_server.mint(
        {"aud": "x", "exp": None}, {"typ": "at+jwt", "jku": "http://127.0.0.1:9"}, without=["nbf"]
    )
    assert header_of(token) == {"alg": "RS256", "typ": "at+jwt", "kid": "RS256-1", "jku": "http://127.0.0.1:9"}
    claims = claims_of(token)
    assert (claims["iss"], claims["aud"], claims["exp"]) == (mock_server.issuer, "x", None)
    assert "nbf" not in claims
    elliptic = await mock_server.mint({"aud": "x"}, kid="ES256-1")
    assert (await verified(mock_server, elliptic, "x"))["aud"] == "x"


async def test_the_mock_signs_with_a_key_that_it_does_not_publish(mock_server: MockServer) -> None:
    stranger = ec_key("ES256-1")
    token = await mock_server.mint({"aud": "x"}, key=stranger)
    with pytest.raises(jwt.InvalidSignatureError):
        await verified(mock_server, token, "x")
    assert jwt.decode(token, jwt.PyJWK(stranger.jwk), ["ES256"], audience="x")["iss"] == mock_server.issuer


async def test_the_mock_rotates_its_keys_and_counts(mock_server: MockServer) -> None:
    await mock_server.rotate()
    token = await mock_server.mint({"aud": "x"})
    assert header_of(token)["kid"] == "RS256-2"
    assert len((await mock_server.jwks())["keys"]) == 4
    await mock_server.retire()
    await verified(mock_server, token, "x")
    assert (await mock_server.metadata())["issuer"] == mock_server.issuer
    assert (await mock_server.fetches("jwks"), await mock_server.fetches("metadata")) == (2, 1)


async def test_a_server_starts_again_on_its_port_with_a_fresh_memory(mock_server: MockServer) -> None:
    await mock_server.rotate()
    issuer = mock_server.issuer
    await asyncio.to_thread(mock_server.restart)
    assert mock_server.issuer == issuer == (await mock_server.metadata())["issuer"]
    assert {key["kid"] for key in (await mock_server.jwks())["keys"]} == {"RS256-1", "ES256-1"}


def test_a_missing_package_is_named_with_the_remedy() -> None:
    with pytest.raises(ServiceMissing, match=r"npm package oidc-provider-10 is missing: run tests/install\.sh"):
        require_package("oidc-provider-10")
