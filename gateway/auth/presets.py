"""Describe the tokens of known issuers where they differ from RFC 9068: a row each, and a page in docs/issuers.

A preset loosens exactly what its row says. ``check`` prints that, and the setting at the issuer that would avoid it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.settings import Issuer

_RFC_9068: Final = ("iss", "sub", "aud", "exp", "iat", "jti", "client_id")


@dataclass(frozen=True, slots=True)
class Preset:
    """Hold the rules for one kind of issuer.

    ``token_types`` are accepted values of the header's ``typ``, None its absence. Access tokens have one of each group
    of ``alternative_claims``, and the values of ``fixed_claims``; only id tokens have ``forbidden_claims``. The first
    of ``scope_claims`` that grants anything counts. The issuer itself adds ``added_audiences``, with ``{issuer}`` for
    its identifier. ``has_substitute_audience``: the audience stands for the resource identifier. Clients put
    ``scope_prefix`` before a scope that they request, with ``{resource}`` and ``{api}`` for the audience that is a URI.
    ``opaque``: tokens cannot be read, and the row is about the issuer's introspection answer.
    """

    name: str
    token_types: tuple[str | None, ...] = ("at+jwt",)
    required_claims: tuple[str, ...] = _RFC_9068
    client_claims: tuple[str, ...] = ("client_id",)
    scope_claims: tuple[str, ...] = ("scope",)
    added_audiences: tuple[str, ...] = ()
    backend_may_require_added: bool = False
    has_substitute_audience: bool = False
    audience_is_client: bool = False
    scope_prefix: str = ""
    opaque: bool = False
    fixed_claims: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    alternative_claims: tuple[tuple[str, ...], ...] = (("client_id", "azp", "scope", "scp"),)
    forbidden_claims: tuple[str, ...] = ("nonce", "at_hash", "c_hash")
    loosens: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def scope_prefix_of(self, issuer: Issuer, resource: str) -> str:
        """Return the prefix of each scope that a client requests from this issuer."""
        named = issuer.audiences or (resource,)
        uris = [audience for audience in named if "://" in audience]
        api = uris[0] if uris else f"api://{named[0]}"
        return self.scope_prefix.replace("{resource}", resource).replace("{api}", api)

    def audiences_added_by(self, issuer: str) -> frozenset[str]:
        return frozenset(audience.replace("{issuer}", issuer) for audience in self.added_audiences)


PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset
    for preset in (
        Preset("strict"),
        Preset(
            "keycloak",
            token_types=("at+jwt", "jwt"),
            required_claims=("iss", "sub", "aud", "exp", "iat", "jti", "azp"),
            client_claims=("azp",),
            added_audiences=("account",),
            backend_may_require_added=True,
            fixed_claims={"typ": ("Bearer", "DPoP")},
            alternative_claims=(("azp",),),
            forbidden_claims=("at_hash", "c_hash"),
            loosens=(
                "header typ JWT is accepted; the claim typ must be Bearer or DPoP in its place",
                "azp is the client; client_id is not required",
                "the audience account beside ours is no extra audience",
            ),
            advice=(
                "add a mapper of type Audience to a client scope: Included Custom Audience = {resource}, "
                "Add to access token = on",
                'from 26.2 on, switch on the client\'s: Use "at+jwt" as access token header type',
            ),
        ),
        Preset(
            "entra",
            token_types=("jwt",),
            required_claims=("iss", "sub", "aud", "exp", "iat"),
            client_claims=("azp", "appid"),
            scope_claims=("scp", "roles"),
            fixed_claims={"ver": ("1.0", "2.0")},
            # Any application of the tenant can have a token that grants nothing: neither scp nor roles.
            alternative_claims=(("azp", "appid"), ("scp", "roles")),
            has_substitute_audience=True,
            scope_prefix="{api}/",
            loosens=(
                "header typ JWT is accepted; a token must have azp or appid in its place, which id tokens lack, "
                "and scp or roles",
                "azp or appid is the client; client_id and jti are not required",
                "scopes are in scp, in roles where there is no scp",
                "the audience is the application's id or its api:// URI, where those are named under audiences",
            ),
            advice=(
                "in the app registration: Expose an API, Application ID URI; name it (v1 tokens) or the application's "
                "id (v2 tokens) under audiences; name a URI of your own there too, which clients put before scopes",
                "set api.requestedAccessTokenVersion to 2 in the manifest for issuer .../v2.0",
            ),
        ),
        Preset(
            "auth0",
            token_types=("at+jwt", "jwt"),
            required_claims=("iss", "sub", "aud", "exp", "iat"),
            client_claims=("client_id", "azp"),
            added_audiences=("{issuer}userinfo",),
            alternative_claims=(("azp", "client_id"),),
            loosens=(
                "header typ JWT is accepted; a token must have azp or client_id, and none of nonce, at_hash and c_hash",
                "azp may name the client; client_id and jti are not required",
                "the audience {issuer}userinfo beside ours is no extra audience",
            ),
            advice=(
                "create an API whose identifier is {resource}",
                "in the API's settings choose the JSON Web Token profile RFC 9068, and set token_types: [at+jwt]",
            ),
        ),
        Preset(
            "okta",
            token_types=("at+jwt", None),
            required_claims=("iss", "sub", "aud", "exp", "iat", "jti", "cid"),
            client_claims=("cid",),
            scope_claims=("scp",),
            alternative_claims=(("cid",),),
            loosens=(
                "a header without typ is accepted; a token must have cid in its place, which id tokens lack",
                "cid is the client; client_id is not required",
                "scopes are in scp",
            ),
            advice=(
                "use a custom authorization server (issuer .../oauth2/...): the org's own tokens are for Okta alone",
                "in its settings set the audience to {resource}",
            ),
        ),
        Preset(
            "cognito",
            token_types=("at+jwt", None),
            required_claims=("iss", "sub", "exp", "iat", "jti", "client_id", "token_use"),
            fixed_claims={"token_use": ("access",)},
            has_substitute_audience=True,
            audience_is_client=True,
            scope_prefix="{resource}/",
            loosens=(
                "a header without typ is accepted; token_use must be access in its place",
                "aud is absent; the client id must be one of clients in its place, and aud, if present, must fit too",
            ),
            advice=(
                "give the gateway app clients of its own, and name them under clients",
                "define a resource server whose identifier is {resource}, so that scopes are {resource}/name",
            ),
        ),
        Preset(
            "simple_oauth",
            token_types=("at+jwt", "jwt"),
            required_claims=("sub", "aud", "exp", "iat", "jti"),
            client_claims=("client_id", "aud"),
            scope_claims=("scope", "scopes"),
            has_substitute_audience=True,
            alternative_claims=(("scope", "scopes"),),
            loosens=(
                "header typ JWT is accepted; a token must have jti, and scope or scopes, in its place, "
                "which id tokens lack",
                "the audience is a client id, one of those under audiences; client_id is not required",
                "iss may be absent, as it is before 6.1, where only one issuer is configured",
            ),
            advice=(
                "create a consumer for MCP clients alone, and name its client id under audiences",
                "issuer is iss as tokens have it, with the slash at its end",
                "metadata.jwks_uri is the site's /oauth/jwks where its own do not say so, or name another issuer",
            ),
        ),
        Preset(
            "google",
            required_claims=("sub", "aud", "azp", "exp"),
            client_claims=("azp",),
            has_substitute_audience=True,
            audience_is_client=True,
            opaque=True,
            alternative_claims=(),
            loosens=(
                "tokens are opaque: each is sent to Google, whose answer is kept for introspection.cache",
                "the audience is a client id, one of those under clients",
            ),
            advice=(
                "create OAuth clients for MCP clients alone, and name them under clients",
                "have clients ask for openid (auth.scopes.list: [openid]); without it a token names no user",
            ),
        ),
    )
}


def preset_of(issuer: Issuer) -> Preset:
    return PRESETS[issuer.preset]
