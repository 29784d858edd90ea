"""Each issuer's tokens, as its page in docs/issuers has them, against its preset."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qs

import pytest

from gateway.auth.claims import IssuerPolicy, issuer_policy
from gateway.auth.compact import InvalidToken
from gateway.auth.issuers import IntrospectionVerifier
from gateway.auth.jwks import IssuerKeys
from gateway.auth.presets import PRESETS
from gateway.auth.verifier import SignatureVerifier, VerifiedToken, Verifier
from gateway.credentials import credential_faults
from gateway.http_client.session import Outbound
from gateway.settings import Issuer
from gateway.settings.auth import KnownMetadata
from tests.authorization import forge
from tests.authorization.answers import Answer
from tests.authorization.forge import OMIT, encoded, over
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import Key, ec_key, octets, rsa_key
from tests.authorization.pages import ISSUERS, Shape, page
from tests.each import each
from tests.tables import each_row

OPAQUE: Final = "opaque-token"
ELSEWHERE: Final = "https://other.example.com/mcp"


@dataclass(frozen=True)
class Who:
    subject: str
    client: str
    scopes: frozenset[str]


CALLERS: Final = {
    "strict": Who("5ba552d67", "s6BhdRkqt3", frozenset({"openid", "orders:read"})),
    "keycloak": Who(
        "0c2ab3f4-6c1d-4b9f-9f3c-8c1a8f7f2e10", "mcp-client", frozenset({"openid", "orders:read", "email", "profile"})
    ),
    "entra": Who(
        "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ",
        "0b5a1d4c-52f5-4b32-9d53-7f0f0c1f4a5e",
        frozenset({"orders.read"}),
    ),
    "auth0": Who(
        "auth0|61f3a0b2c4d5e6f708192a3b",
        "9gGk1sZ4XJv3yBqN0aPzV1mC7dE2fR5t",
        frozenset({"openid", "profile", "orders:read"}),
    ),
    "okta": Who("alice@example.com", "0oa1k2j3h4g5f6d7s8a9", frozenset({"openid", "orders:read"})),
    "cognito": Who("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "1example23456789", frozenset({"openid", "orders.read"})),
    "simple_oauth": Who("7", "mcp_client", frozenset({"orders:read", "content:read"})),
    "google": Who(
        "110169484474386276334",
        "1234567890-abc.apps.googleusercontent.com",
        frozenset({"openid", "https://www.googleapis.com/auth/userinfo.email"}),
    ),
}
READ: Final = [name for name in PRESETS if not PRESETS[name].opaque]
"""Presets whose tokens are read here, not asked about."""


@pytest.fixture(scope="module")
def key() -> Key:
    return rsa_key("k")


@dataclass
class Desk:
    """Where one preset's tokens are made and verified, with the configuration of its page."""

    policy: IssuerPolicy
    keys: IssuerKeys
    verifier: Verifier
    issuer: ForgedIssuer
    key: Key
    signed: bool

    async def check(self, shape: Shape, key: Key | None = None) -> VerifiedToken:
        """Verify a token. Raise :class:`InvalidToken`. An answer is given for an opaque token."""
        if not self.signed:
            self.issuer.disturb("introspection", Answer(body=encoded(shape.claims)))
            return await self.verifier.verify_token(OPAQUE)
        return await self.verifier.verify_token(self.token(shape, key))

    def token(self, shape: Shape, key: Key | None = None) -> str:
        """Signed by the issuer, or by ``key``."""
        return forge.compact(shape.header, shape.claims, key or self.key)


@asynccontextmanager
async def desk(preset: str, key: Key, *, introspects: bool = False, **knobs: Any) -> AsyncIterator[Desk]:
    """Yield a desk with the page's configuration, the issuer's ``knobs`` changed. The backend sees callers' tokens."""
    settings = page(preset).settings
    kid = page(preset).access.header.get("kid")
    published = {name: value for name, value in key.jwk.items() if name != "kid"} | ({"kid": kid} if kid else {})
    async with ForgedIssuer(keys=[key]) as issuer:
        issuer.publish(published)
        configured = settings.auth.issuers[0]
        known = KnownMetadata(jwks_uri=issuer.jwks_uri, introspection_endpoint=issuer.url("introspection"))
        changes = {"metadata": known, **knobs}
        if introspects or configured.introspects:
            changes["introspection"] = configured.introspection
        configured = configured.model_copy(update=changes)
        policy = issuer_policy(configured, settings.by_mount[""].resource, extra_audiences=False, implies={})
        outbound = Outbound()
        keys = IssuerKeys(configured, outbound)
        verifier: Verifier = SignatureVerifier([(policy, keys)])
        if configured.introspects:
            verifier = IntrospectionVerifier(policy, keys)
        try:
            yield Desk(policy, keys, verifier, issuer, key, not configured.introspects)
        finally:
            await outbound.close()


def access(preset: str) -> Shape:
    return page(preset).access.at(int(time.time()))


def with_claims(shape: Shape, **claims: Any) -> Shape:
    return Shape(shape.header, over(shape.claims, claims))


def with_header(shape: Shape, **members: Any) -> Shape:
    return Shape(over(shape.header, members), shape.claims)


def for_somebody_else(preset: str, shape: Shape) -> Shape:
    """The same for another recipient, by whatever names the recipient there."""
    name = {"cognito": "client_id", "google": "azp"}.get(preset, "aud")
    return with_claims(shape, **{name: ELSEWHERE})


async def refused(check: Awaitable[object], reason: str = "") -> None:
    with pytest.raises(InvalidToken) as caught:
        await check
    assert reason in str(caught.value)


@each("preset", [*PRESETS])
async def test_a_token_as_its_issuer_makes_it_is_accepted_with_its_caller(preset: str, key: Key) -> None:
    async with desk(preset, key) as it:
        principal = (await it.check(access(preset))).principal
    assert Who(principal.subject, principal.client, principal.scopes) == CALLERS[preset]
    assert principal.issuer == page(preset).settings.auth.issuers[0].issuer


@each("preset", READ)
async def test_its_id_token_is_refused_even_if_it_is_for_the_audience_that_counts(preset: str, key: Key) -> None:
    id_token = page(preset).id_token.at(int(time.time()))
    async with desk(preset, key) as it:
        await refused(it.check(id_token))
        for audience in it.policy.audiences:
            await refused(it.check(with_claims(id_token, aud=audience)))
            bare = with_claims(id_token, aud=audience, nonce=OMIT, at_hash=OMIT)
            await refused(it.check(bare))


@each("preset", [*PRESETS])
async def test_a_token_for_somebody_else_is_refused(preset: str, key: Key) -> None:
    async with desk(preset, key) as it:
        await refused(it.check(for_somebody_else(preset, access(preset))))


@each("preset", [*PRESETS])
async def test_a_client_that_is_not_named_is_refused_where_clients_are(preset: str, key: Key) -> None:
    async with desk(preset, key, clients=(CALLERS[preset].client,)) as it:
        await it.check(access(preset))
    async with desk(preset, key, clients=("another",)) as it:
        await refused(it.check(access(preset)))


@each(("preset", "name"), [(preset, name) for preset in PRESETS for name in PRESETS[preset].required_claims])
async def test_a_token_without_what_its_issuer_always_gives_is_refused(preset: str, name: str, key: Key) -> None:
    async with desk(preset, key) as it:
        await refused(it.check(with_claims(access(preset), **{name: OMIT})))


@each("preset", [*PRESETS])
def test_what_a_page_tells_to_write_is_one_protected_resource(preset: str) -> None:
    settings = page(preset).settings
    assert settings.auth.issuers[0].preset == preset
    assert credential_faults(settings.by_mount[""]) == []


@each("preset", [*PRESETS])
def test_each_preset_has_a_page_that_the_index_names(preset: str) -> None:
    assert f"({preset}.md)" in (ISSUERS / "README.md").read_text()


async def test_keycloaks_refresh_token_is_refused_whoever_signed_it(key: Key) -> None:
    refresh = page("keycloak").shape("refresh")
    assert refresh is not None
    refresh = with_claims(refresh.at(int(time.time())), aud=access("keycloak").claims["aud"])
    async with desk("keycloak", key) as it:
        await refused(it.check(refresh, octets()), "algorithm")
        await refused(it.check(with_header(refresh, alg="RS256", kid=access("keycloak").header["kid"])), "typ")


async def test_an_encrypted_refresh_token_such_as_cognitos_is_refused(key: Key) -> None:
    async with desk("cognito", key) as it:
        await refused(it.verifier.verify_token(forge.encrypted(access("cognito").claims, it.key)))


@each("kind", ["ID", "Refresh", "Offline", "Logout", "bearer", OMIT])
async def test_keycloak_says_what_a_token_is_in_its_claims(kind: Any, key: Key) -> None:
    async with desk("keycloak", key) as it:
        await refused(it.check(with_claims(access("keycloak"), typ=kind)))


async def test_keycloaks_refresh_token_does_not_count_for_being_active(key: Key) -> None:
    async with desk("keycloak", key, introspects=True) as it:
        answer = with_claims(access("keycloak"), active=True)
        assert (await it.check(answer)).principal.subject == CALLERS["keycloak"].subject
        await refused(it.check(with_claims(answer, typ="Refresh")), "typ")


async def test_keycloaks_nonce_in_an_access_token_is_nothing_against_it(key: Key) -> None:
    async with desk("keycloak", key) as it:
        await it.check(with_claims(access("keycloak"), nonce="n"))


async def test_entras_version_one_and_application_tokens_are_accepted(key: Key) -> None:
    tenant = "https://sts.windows.net/72f988bf-86f1-41af-91ab-2d7cd011db47/"
    audience = "api://6e74172b-be56-4843-9ff4-e66a39bb12e3"
    one = {"iss": tenant, "aud": audience, "ver": "1.0", "appid": "app", "azp": OMIT, "azpacr": OMIT, "appidacr": "1"}
    async with desk("entra", key, issuer=tenant, audiences=(audience,)) as it:
        assert (await it.check(with_claims(access("entra"), **one))).principal.client == "app"
    async with desk("entra", key) as it:
        own = with_claims(access("entra"), scp=OMIT, roles=["orders.read", "orders.write"], idtyp="app")
        assert (await it.check(own)).principal.scopes == {"orders.read", "orders.write"}


@each("alg", ["ES384", "ES512"])
async def test_every_asymmetric_algorithm_counts_where_the_issuer_has_a_key_for_it(alg: str) -> None:
    async with desk("strict", ec_key(alg, alg)) as it:
        shape = access("strict")
        assert (await it.check(replace(shape, header={**shape.header, "alg": alg}))).principal.subject


@each_row
def test_what_clients_put_before_a_scope_follows_from_the_preset(
    preset: Any, audiences: tuple[str, ...], prefix: str
) -> None:
    issuer = Issuer(issuer="https://login.example.com", preset=preset, audiences=audiences)
    policy = issuer_policy(issuer, "https://gw.example.com/mcp", extra_audiences=False, implies={})
    assert policy.scope_prefix == prefix


async def test_entras_token_that_grants_nothing_is_refused(key: Key) -> None:
    async with desk("entra", key) as it:
        await refused(it.check(with_claims(access("entra"), scp=OMIT)), "scp, roles")


async def test_the_roles_of_a_user_are_not_the_scopes_of_the_client(key: Key) -> None:
    async with desk("entra", key) as it:
        both = with_claims(access("entra"), roles=["orders.admin"])
        assert (await it.check(both)).principal.scopes == {"orders.read"}
    async with desk("auth0", key) as it:
        both = with_claims(access("auth0"), permissions=["orders:admin"])
        assert "orders:admin" not in (await it.check(both)).principal.scopes
    async with desk("entra", key, scope_claims=("scp", "roles")) as it:
        both = with_claims(access("entra"), roles=["orders.admin"])
        assert (await it.check(both)).principal.scopes == {"orders.read", "orders.admin"}


async def test_auth0s_other_profile_is_accepted_too_and_can_be_all_that_is(key: Key) -> None:
    other = {"azp": OMIT, "client_id": "c", "jti": "j"}
    profile = with_header(with_claims(access("auth0"), **other), typ="at+jwt")
    async with desk("auth0", key, token_types=("at+jwt",)) as it:
        assert (await it.check(profile)).principal.client == "c"
        await refused(it.check(access("auth0")), "typ")


async def test_a_token_of_oktas_org_is_refused(key: Key) -> None:
    async with desk("okta", key) as it:
        await refused(it.check(with_header(access("okta"), typ="application/okta-internal-at+jwt")), "typ")


async def test_a_resource_that_cognito_names_has_to_be_this_one(key: Key) -> None:
    async with desk("cognito", key) as it:
        await it.check(with_claims(access("cognito"), aud="https://gw.example.com/mcp"))
        await refused(it.check(with_claims(access("cognito"), aud=ELSEWHERE)), "aud")


async def test_releases_of_simple_oauth_that_write_scopes_or_no_issuer_are_accepted(key: Key) -> None:
    async with desk("simple_oauth", key) as it:
        older = with_claims(access("simple_oauth"), scope=OMIT, scopes=["content:read"], iss=OMIT, aud=["mcp_client"])
        principal = (await it.check(older)).principal
        assert (principal.issuer, principal.client) == ("https://drupal.example.com/", "mcp_client")
        assert principal.scopes == {"content:read"}


async def test_a_token_without_issuer_is_nobodys_where_there_are_several(key: Key) -> None:
    async with desk("simple_oauth", key) as it, desk("strict", key) as other:
        several = SignatureVerifier([(it.policy, it.keys), (other.policy, other.keys)])
        await refused(several.verify_token(it.token(with_claims(access("simple_oauth"), iss=OMIT))), "issuer")


async def test_google_is_asked_in_the_body_of_a_request_and_never_in_its_address(key: Key) -> None:
    async with desk("google", key) as it:
        await it.check(access("google"))
        (fetch,) = it.issuer.fetches
        assert parse_qs(fetch.body.decode()) == {"access_token": [OPAQUE]}
        it.issuer.disturb("introspection", Answer(status=400, body=b'{"error":"invalid_token"}'))
        id_token = page("google").id_token.at(int(time.time()))
        await refused(it.verifier.verify_token(it.token(id_token)), "not active")
