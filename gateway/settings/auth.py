"""Define the knobs of authentication and authorization: issuers, scopes, and access without a token."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from gateway.settings.knobs import Document, Section, all_checked, checked, http_url, is_loopback, knob
from gateway.units import Duration

SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1000}")
"""A scope token (RFC 6749 §3.3)."""


def secure_url(url: str) -> str:
    """Return the URL if it is https, or http to loopback. Raises :class:`ValueError`."""
    parts = urlsplit(http_url(url))
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be https (http is allowed for loopback only)")
    return url


SecureUrl = Annotated[str, AfterValidator(secure_url)]


_SCOPE_FAULT: Final = "is not a scope: printable ASCII without spaces, quotes and backslashes"
ScopeTokens = Annotated[tuple[str, ...], all_checked(SCOPE.fullmatch, _SCOPE_FAULT)]


class ClientSecret(Section):
    """The gateway's client authentication at an endpoint of the authorization server (client_secret_basic)."""

    client_id: str | None = knob(None, "Client id of the gateway at the authorization server.")
    client_secret: SecretStr | None = knob(None, "Secret of that client, e.g. ${file:/run/secrets/client_secret}.")

    def conflict(self) -> str:
        return "client_secret needs client_id" if self.client_secret is not None and self.client_id is None else ""


class Introspection(ClientSecret):
    """Token introspection (RFC 7662): the gateway asks the authorization server about each token."""

    cache: Duration = knob(60.0, "Time for which an answer counts. A revocation takes effect that late.", ge=0, le=3600)


class KnownMetadata(Document):
    """Members of an issuer's metadata (RFC 8414), for issuers that publish none, or not these."""

    jwks_uri: SecureUrl | None = knob(None, "URL of the signing keys.")
    introspection_endpoint: SecureUrl | None = knob(None, "Endpoint that introspection asks.")


class Issuer(Section):
    """An authorization server whose tokens are accepted."""

    issuer: Annotated[
        SecureUrl, checked(lambda url: not urlsplit(url).query, "must not have a ?query (RFC 8414 §2)")
    ] = Field(
        description="Identifier of the issuer, exactly as in the iss of its tokens: case and trailing slash count.",
    )
    preset: Literal["strict", "keycloak", "entra", "auth0", "okta", "cognito", "simple_oauth", "google"] = knob(
        "strict", "Form of this issuer's tokens, see docs/issuers. strict is RFC 9068."
    )
    audiences: tuple[str, ...] = knob(
        (),
        "Values of aud (or of the claim that the preset uses instead) that mean this gateway. Absent: the "
        "resource, such as public_url + /mcp.",
    )
    clients: tuple[str, ...] = knob((), "Client ids that may call. Absent: all. Presets cognito and google need it.")
    introspection: Introspection = knob(
        Introspection,
        "Ask the issuer about each token instead of verifying its signature. On where this is given, even as {}, or "
        "with preset google.",
    )
    metadata: KnownMetadata = knob(
        KnownMetadata, "What the issuer's own metadata do not say: {jwks_uri: https://…, introspection_endpoint: …}."
    )
    token_types: tuple[str, ...] = knob((), "Accepted values of typ in a token's header. Absent: those of the preset.")
    scope_claims: tuple[str, ...] = knob(
        (), "Claims that hold scopes, with dots for nested ones (realm_access.roles). Absent: those of the preset."
    )
    ca_file: str | None = knob(None, "CA bundle (PEM) to trust for this issuer, instead of the system's.")

    @property
    def introspects(self) -> bool:
        # A knob that is set to its default counts too: cache: 60s must not leave revoked tokens good until they end.
        return self.preset == "google" or "introspection" in self.model_fields_set

    def __eq__(self, other: object) -> bool:
        """Return whether all knobs are the same, and whether introspection is on in both."""
        return super().__eq__(other) and isinstance(other, Issuer) and self.introspects == other.introspects

    def conflict(self) -> str:
        if self.preset in ("cognito", "google") and not self.clients:
            return (
                f"preset {self.preset}: its tokens name no audience, so clients must list the client ids that may call"
            )
        if self.preset == "simple_oauth" and not self.audiences:
            return (
                "preset simple_oauth: its tokens have the client id as their audience, so audiences must list the ids"
            )
        return ""


class Scopes(Section):
    """Scopes that a caller needs, in addition to those of a tool."""

    list_: ScopeTokens = Field((), alias="list", description="Scopes needed to list tools.")
    call: ScopeTokens = knob((), "Scopes needed to call any tool, in addition to the tool's own scopes.")
    implies: dict[Annotated[str, checked(SCOPE.fullmatch, _SCOPE_FAULT)], ScopeTokens] = knob(
        dict, "Scopes that include others: {admin: [read, write]}."
    )
    challenge: Literal["least", "all"] = knob(
        "least", "Scopes that clients ask for when they log in. least: of list and call. all: of tools too."
    )
    show: Literal["permitted", "all"] = knob(
        "permitted", "Tools that are listed. permitted: those that the token has the scopes for. all: the others too."
    )


class ApiKey(Section):
    """One API key, as the key file has it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scopes: ScopeTokens = ()
    expires: Annotated[datetime, AfterValidator(lambda at: at if at.tzinfo else at.replace(tzinfo=UTC))] | None = None

    @property
    def short(self) -> str:
        """Return how people tell the keys of a name apart."""
        return self.sha256[:8]


class ApiKeys(Section):
    """Keys that the gateway itself gives out, for callers without an issuer."""

    file: str | None = knob(None, "YAML file with the hashes of API keys, see `keys add`. A change counts in 2 s.")
    trusted_network: bool = knob(
        False, "Accept API keys over plain http from other machines, where the network itself encrypts."
    )


@dataclass(frozen=True, slots=True)
class AuthMode:
    """Hold what a mode means to other parts, none of which asks for a mode by its name. ``authenticates``: callers can
    be told apart. ``has_issuers``: callers show a token that one of the issuers made for this resource. The service may
    be sent it, and nothing else of theirs ever; clients learn from the resource's metadata where to get one (RFC 9728).
    ``has_keys``: callers may show an API key."""

    authenticates: bool
    has_issuers: bool
    has_keys: bool


AUTH_MODES: Final = {
    "jwt": AuthMode(authenticates=True, has_issuers=True, has_keys=True),
    "keys": AuthMode(authenticates=True, has_issuers=False, has_keys=True),
    "off": AuthMode(authenticates=False, has_issuers=False, has_keys=False),
}
"""Every mode of ``auth.mode``."""


class Auth(Section):
    """Authentication and authorization of callers."""

    mode: Literal["jwt", "keys", "off"] = knob(
        "jwt",
        "jwt: callers send an OAuth access token of one of the issuers. "
        "keys: callers send an API key of keys.file. "
        "off: no authentication; a client's Authorization header is dropped.",
    )
    issuers: tuple[Issuer, ...] = knob((), "Authorization servers whose tokens are accepted.")
    keys: ApiKeys = knob(ApiKeys, "API keys, with mode keys, or beside the tokens of mode jwt.")
    scopes: Scopes = knob(Scopes, "Scopes that a caller needs.")
    anonymous: Literal["none", "list", "open-tools"] = knob(
        "none",
        "What callers without a token may do. none: nothing. list: list the tools. open-tools: list and call the tools "
        "that the backend marks as open (annotations.auth.level none or optional).",
    )
    dpop: Literal["off", "accept", "require"] = knob(
        "off",
        "Tokens that are bound to a client's key (RFC 9449). off: they are refused. accept: they are accepted, as are "
        "other tokens. require: only they are accepted.",
    )
    shared_audience: bool = knob(
        False,
        "Accept tokens that another service here accepts too (same issuer, same audience). Both services must set it. "
        "A token for one is then good for the other.",
    )
    allow_unauthenticated: bool = knob(
        False, "With mode off, allow other addresses than loopback. Only where something in front authenticates."
    )

    @property
    def traits(self) -> AuthMode:
        return AUTH_MODES[self.mode]

    @property
    def active_issuers(self) -> tuple[Issuer, ...]:
        return self.issuers if self.traits.has_issuers else ()

    @property
    def takes_keys(self) -> bool:
        """Return whether callers may show an API key, which is not an issuer's token whatever the mode."""
        return self.keys.file is not None and self.traits.has_keys

    def conflict(self) -> str:
        if self.traits.has_keys and not self.traits.has_issuers and self.keys.file is None:
            return "keys.file: must be set with mode: keys; `keys add NAME --file keys.yaml` writes such a file"
        if self.takes_keys and self.dpop == "require":
            return "dpop: with require, API keys would go round it: set accept, or take keys.file out"
        if len({issuer.issuer for issuer in self.active_issuers}) < len(self.active_issuers):
            return "issuers: an issuer is listed twice"
        if sum(issuer.introspects for issuer in self.active_issuers) > 1:
            return "issuers: at most one can use introspection, because an opaque token does not name its issuer"
        return ""
