"""When a gateway may show its backend callers' tokens, and refuses to start where it may not (docs/security.md, F1 to
F6). What it then sends, and to whom, is in tests/authorization/test_forwarding.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.config.layers import Layers
from gateway.config.source import ConfigError, load_settings
from gateway.credentials import credential_faults
from gateway.process.server import Server
from gateway.settings import Settings
from tests.each import each
from tests.front import built

PUBLIC = "https://gw.example.com"
RESOURCE = f"{PUBLIC}/mcp"
AUDIENCE = f"backend.credentials.backend_audience={RESOURCE}"
SIMPLE_OAUTH = "auth.issuers=[{issuer: 'https://cms.example.com', preset: simple_oauth, audiences: [mcp-client]}]"
KEYCLOAK = "auth.issuers=[{issuer: 'https://sso.example.com/realms/a', preset: keycloak}]"
COGNITO = "auth.issuers=[{issuer: 'https://cognito.example.com', preset: cognito, clients: [app1]}]"
AUTH0 = "auth.issuers=[{issuer: 'https://t.auth0.com/', preset: auth0}]"
CLIENT = "client_id: gw, client_secret: s3cret"
EXCHANGE = f"backend.credentials={{mode: token_exchange, audience: 'https://backend.example.com', {CLIENT}}}"
OWN = f"backend.credentials={{mode: client_credentials, {CLIENT}}}"


def ground(*knobs: str, url: str = "https://backend.example.com/jsonrpc") -> tuple[str, ...]:
    issuers = "auth.issuers=[{issuer: 'https://login.example.com'}]"
    return (f"backend.url={url}", f"server.public_url={PUBLIC}", issuers, *knobs)


def unjudged(knobs: Sequence[str]) -> Settings:
    """Settings as they are without :func:`gateway.config.source.load_settings`, which would refuse them."""
    layers = Layers({})
    for knob in knobs:
        layers.add_override(knob)
    return Settings.model_validate(layers.tree)


def faults(*knobs: str, url: str = "https://backend.example.com/jsonrpc") -> list[str]:
    """What stands against the settings, which is what keeps them from being loaded."""
    found = credential_faults(unjudged(ground(*knobs, url=url)).by_mount[""])
    assert refusal(*ground(*knobs, url=url)) == found
    return found


def refusal(*knobs: str) -> list[str]:
    try:
        load_settings(None, knobs, environ={})
    except ConfigError as error:
        return list(error.faults)
    return []


GOOD: dict[str, tuple[str, ...]] = {
    "one audience for both": (AUDIENCE,),
    "a client id with simple_oauth": (SIMPLE_OAUTH, "backend.credentials.backend_audience=mcp-client"),
    "account, which Keycloak brings": (KEYCLOAK, "backend.credentials.backend_audience=account"),
    "the resource with Keycloak": (KEYCLOAK, AUDIENCE),
    "a client with cognito": (COGNITO, "backend.credentials.backend_audience=app1"),
    "a token of its own for the backend": (EXCHANGE,),
    "the gateway's own token": (OWN,),
    "nothing": ("backend.credentials.mode=none",),
    "a fixed header": ("backend.credentials={mode: static, send: {headers: {X-Key: sesame}}}",),
    "bound tokens, exchanged": (EXCHANGE, "auth.dpop=require"),
    "authentication off": ("auth.mode=off",),
    "authentication off, the gateway's own token": (
        "auth.mode=off", f"backend.credentials={{mode: client_credentials, token_endpoint: 'https://a/t', {CLIENT}}}",
    ),
    "a listing elsewhere, asked for by nobody": (
        AUDIENCE, "backend.listing.url=https://docs.example.com/openrpc.json", "backend.listing.identity=shared",
    ),
    "a listing elsewhere on the origin": (AUDIENCE, "backend.listing.url=https://backend.example.com/openrpc.json"),
}  # fmt: skip


@each("knobs", GOOD)
def test_these_may_start(knobs: tuple[str, ...]) -> None:
    assert faults(*knobs) == []


BAD: dict[str, tuple[str, tuple[str, ...]]] = {
    "F1, not said": ("backend.credentials.backend_audience", ()),
    "F1, another resource": (
        "backend.credentials.backend_audience", ("backend.credentials.backend_audience=https://backend.example.com",),
    ),
    "F1, the resource but for a slash": (
        "backend.credentials.backend_audience", (f"backend.credentials.backend_audience={RESOURCE}/",),
    ),
    "F1, what another preset brings": (
        "backend.credentials.backend_audience", ("backend.credentials.backend_audience=account",),
    ),
    "F1, userinfo, which is Auth0's own": (
        "backend.credentials.backend_audience",
        (AUTH0, "backend.credentials.backend_audience=https://t.auth0.com/userinfo"),
    ),
    "F1, a client id with an issuer that has real audiences": (
        "backend.credentials.backend_audience",
        (
            "auth.issuers=[{issuer: 'https://login.example.com', clients: [app1]}]",
            "backend.credentials.backend_audience=app1",
        ),
    ),
    "F1, tokens for others alone": (
        "backend.credentials.backend_audience",
        (
            AUDIENCE,
            "auth.issuers=[{issuer: 'https://login.example.com', audiences: ['https://other.example.com']}]",
        ),
    ),
    "F1, for the listing alone": (
        "backend.credentials.backend_audience",
        ("backend.credentials.mode=none", "backend.listing.credentials.mode=same_resource"),
    ),
    "no tokens to show": ("backend.credentials.mode", ("auth.mode=off", "backend.credentials.mode=same_resource")),
    "no tokens to exchange": ("backend.credentials.mode", ("auth.mode=off", EXCHANGE)),
    "nobody to have a token of": ("backend.credentials.token_endpoint", ("auth.mode=off", OWN)),
    "F4, a proxy that could read": (
        "backend.proxy",
        (AUDIENCE, "backend.url=http://127.0.0.1:9/jsonrpc", "backend.proxy=http://proxy.example.com:3128"),
    ),
    "F4, plain http": ("backend.url", (AUDIENCE, "backend.url=http://backend.internal/jsonrpc")),
    "F4, a listing elsewhere": ("backend.listing.url", (AUDIENCE, "backend.listing.url=https://docs.example.com/x")),
    "F4, a listing on another port": (
        "backend.listing.url", (AUDIENCE, "backend.listing.url=https://backend.example.com:8443/x"),
    ),
    "F4, a listing without TLS": (
        "backend.listing.url", (AUDIENCE, "backend.listing.url=http://backend.example.com/x"),
    ),
    "F6, bound tokens": ("auth.dpop", (AUDIENCE, "auth.dpop=accept")),
    "F6, bound tokens alone": ("auth.dpop", (AUDIENCE, "auth.dpop=require")),
    "a caller's exchange for everybody": (
        "backend.listing.credentials.mode",
        (
            AUDIENCE,
            "backend.listing.identity=shared",
            f"backend.credentials={{audience: a, backend_audience: '{RESOURCE}', {CLIENT}}}",
            "backend.listing.credentials.mode=token_exchange",
        ),
    ),
}  # fmt: skip


@each(("knob", "knobs"), BAD)
def test_these_may_not_and_the_fault_names_the_knob(knob: str, knobs: tuple[str, ...]) -> None:
    (fault,) = faults(*knobs)
    assert fault.startswith(f"{knob}: ")


@each(("knob", "knobs"), BAD)
async def test_a_gateway_with_a_fault_does_not_start(knob: str, knobs: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        await built(unjudged(ground(*knobs)).by_mount[""])
    assert caught.value.faults[0].startswith(knob)
    with pytest.raises(ConfigError):
        await Server(unjudged(ground(*knobs))).start()


def test_all_faults_are_told_at_once() -> None:
    found = faults("auth.dpop=accept", "backend.proxy=http://p.example.com", url="http://backend.internal/jsonrpc")
    assert [fault.partition(":")[0] for fault in found] == [
        "backend.credentials.backend_audience", "backend.url", "backend.proxy", "auth.dpop",
    ]  # fmt: skip


def test_with_several_issuers_the_audience_suits_each() -> None:
    both = "auth.issuers=[{issuer: 'https://login.example.com'}, {issuer: 'https://sso.example.com', preset: keycloak}]"
    assert faults(both, AUDIENCE) == []
    (fault,) = faults(both, "backend.credentials.backend_audience=account")
    assert "account is not the gateway's resource" in fault


def test_the_fault_says_what_would_be_right() -> None:
    (fault,) = faults()
    assert RESOURCE in fault
    assert "token_exchange" in fault


def test_the_remedy_is_for_the_section_that_shows_tokens() -> None:
    listing = "backend.listing.credentials={mode: same_resource}"
    (fault,) = faults("backend.credentials={mode: none}", listing)
    assert fault.startswith("backend.credentials.backend_audience: ")
    assert "else set backend.listing.credentials.mode: token_exchange" in fault


@each("host", ["127.0.0.1", "localhost", "[::1]"])
def test_plain_http_is_good_on_this_machine(host: str) -> None:
    assert faults(AUDIENCE, url=f"http://{host}:8000/jsonrpc") == []


def test_plain_http_is_good_where_the_network_itself_encrypts() -> None:
    trusted = "backend.credentials.trusted_network=true"
    assert faults(AUDIENCE, trusted, url="http://backend.internal/jsonrpc") == []


def test_a_proxy_is_good_where_it_sees_ciphertext() -> None:
    assert faults(AUDIENCE, "backend.proxy=http://proxy.example.com:3128") == []


def test_what_shows_no_callers_token_may_go_over_plain_http() -> None:
    for mode in (EXCHANGE, OWN, "backend.credentials.mode=none"):
        assert faults(mode, "backend.proxy=http://p.example.com", url="http://backend.internal/jsonrpc") == []


@each("scope", ["a b", 'a"b', "a\\b", "", "ä", "a\nb"])
def test_a_tools_scope_that_no_token_can_have_is_refused(scope: str) -> None:
    with pytest.raises(ConfigError, match="is not a scope") as caught:
        load_settings(
            None,
            ["backend.url=http://127.0.0.1/", "auth.mode=off", f"catalog.tools={{x: {{scopes: [{scope!r}]}}}}"],
            {},
        )
    assert "catalog.tools" in caught.value.faults[0]


def test_what_may_be_held_is_as_much_as_the_largest_answer() -> None:
    held = ground("server.max_buffered=4MiB", "backend.credentials.mode=none")
    (fault,) = refusal(*held)
    assert fault.startswith("server.max_buffered: is less than backend.max_response")
    assert refusal(*held, "backend.max_response=4MiB") == []
