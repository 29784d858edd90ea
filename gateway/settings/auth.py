"""Knobs of who may call: issuers of tokens, scopes, and what is open to all."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.settings.knobs import Section, http_url, is_loopback, knob
from gateway.units import Duration

Algorithm: TypeAlias = Literal["RS256", "PS256", "ES256", "RS384", "PS384", "ES384", "RS512", "PS512", "ES512", "EdDSA"]
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def secure_url(url: str) -> str:
    """An https URL; http only to this machine itself. Raises :class:`ValueError`."""
    parts = urlsplit(http_url(url))
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be https (http is for loopback alone)")
    return url


def scope_tokens(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Scope tokens as RFC 6749 §3.3 has them. Raises :class:`ValueError`."""
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise ValueError(f"{scope!r} is no scope: printable ASCII without spaces, quotes and backslashes")
    return scopes


class ClientSecret(Section):
    """How the gateway authenticates at an endpoint of the authorization server (client_secret_basic)."""

    client_id: str | None = knob(None, "The gateway's own client id there.")
    client_secret: SecretStr | None = knob(None, "Its secret, e.g. ${file:/run/secrets/client_secret}.")

    @model_validator(mode="after")
    def _pair(self) -> Any:
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("client_secret needs client_id")
        return self


class Introspection(ClientSecret):
    """Asking the authorization server about each token (RFC 7662), for tokens that cannot be read."""

    endpoint: str | None = knob(None, "Where to ask; absent: as the issuer's metadata say.")
    cache: Duration = knob(60.0, "Time for which an answer is good; how late a revocation is noticed.", ge=0, le=3600)

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, url: str | None) -> str | None:
        return None if url is None else secure_url(url)


class Issuer(Section):
    """An authorization server whose tokens are accepted."""

    issuer: str = Field(
        description="Its identifier, exactly as its tokens have it in iss: case and trailing slash count.",
    )
    preset: Literal["strict", "keycloak", "entra", "auth0", "okta", "cognito", "simple_oauth", "google"] = knob(
        "strict", "What this issuer's tokens look like, see docs/issuers; strict is RFC 9068."
    )
    audiences: tuple[str, ...] = knob(
        (), "Values of aud (or of what the preset has in its place) that mean this gateway; absent: the resource."
    )
    clients: tuple[str, ...] = knob((), "Client ids that may call; absent: all. Some presets need it in place of aud.")
    verification: Literal["auto", "jwt", "introspection"] = knob(
        "auto", "jwt: by signature. introspection: by asking the issuer. auto: as the preset says."
    )
    introspection: Introspection = knob(Introspection, "Asking the issuer about each token.")
    jwks_uri: str | None = knob(None, "Where its keys are; absent: as its metadata say.")
    algorithms: tuple[Algorithm, ...] = knob(("RS256", "PS256", "ES256", "EdDSA"), "Signature algorithms accepted.")
    token_types: tuple[str, ...] = knob((), "Values of the header's typ that are accepted; absent: as the preset says.")
    scope_claims: tuple[str, ...] = knob(
        (), "Claims with scopes, dots for nested ones (realm_access.roles); absent: as the preset says."
    )
    scope_prefix: str = knob(
        "",
        "What clients put before a scope when asking for it and the token leaves out, e.g. api://orders/ with Entra.",
    )
    leeway: Duration = knob(30.0, "How far clocks may differ.", ge=0, le=120)
    max_lifetime: Duration = knob(
        86400.0, "Longest life of a token, iat to exp, that is accepted.", gt=0, le=31 * 86400
    )
    keys_ttl: Duration = knob(300.0, "Age at which keys are fetched again, in the background.", ge=1, le=86400)
    keys_max_stale: Duration = knob(
        86400.0, "Age up to which known keys serve while the issuer cannot be reached.", ge=0, le=30 * 86400
    )
    ca_file: str | None = knob(None, "CA bundle (PEM) to trust for this issuer in place of the system's.")

    @field_validator("issuer")
    @classmethod
    def _check_issuer(cls, url: str) -> str:
        if urlsplit(secure_url(url)).query:
            raise ValueError("must not have a ?query (RFC 8414 §2)")
        return url

    @field_validator("jwks_uri")
    @classmethod
    def _check_jwks_uri(cls, url: str | None) -> str | None:
        return None if url is None else secure_url(url)

    @field_validator("scope_prefix")
    @classmethod
    def _check_prefix(cls, prefix: str) -> str:
        if prefix:
            scope_tokens((prefix,))
        return prefix

    @property
    def introspects(self) -> bool:
        return self.verification == "introspection" or (self.verification == "auto" and self.preset == "google")

    @model_validator(mode="after")
    def _check_preset(self) -> Issuer:
        if self.preset in ("cognito", "google") and not self.clients:
            raise ValueError(
                f"preset {self.preset}: its tokens name no audience, so clients must list the client ids that may call"
            )
        if self.preset == "simple_oauth" and not self.audiences:
            raise ValueError(
                "preset simple_oauth: its tokens have the client id as their audience, so audiences must list the ids"
            )
        if self.preset == "google" and self.verification == "jwt":
            raise ValueError("preset google: its access tokens cannot be read, and its id tokens are not for calling")
        return self


class Scopes(Section):
    """Which scopes a caller needs. None unless said here, or by a tool."""

    list_: tuple[str, ...] = Field((), alias="list", description="To list tools.")
    call: tuple[str, ...] = knob((), "To call any tool, besides the tool's own scopes.")
    implies: dict[str, tuple[str, ...]] = knob(dict, "Scopes that stand for others too: {admin: [read, write]}.")

    @field_validator("list_", "call")
    @classmethod
    def _check(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        return scope_tokens(scopes)

    @field_validator("implies")
    @classmethod
    def _check_implies(cls, implies: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for broad, narrow in implies.items():
            scope_tokens((broad, *narrow))
        return implies


class Auth(Section):
    """Who may call."""

    mode: Literal["jwt", "off"] = knob(
        "jwt",
        "jwt: callers bring an OAuth access token of one of the issuers. "
        "off: no authentication, a client's Authorization header is dropped.",
    )
    issuers: tuple[Issuer, ...] = knob((), "Authorization servers whose tokens are accepted.")
    scopes: Scopes = knob(Scopes, "Which scopes a caller needs.")
    anonymous: Literal["none", "list", "open-tools"] = knob(
        "none",
        "What callers without a token may do. list: list the tools. open-tools: list and call the tools that the "
        "backend marks as open (annotations.auth.level none or optional).",
    )
    dpop: Literal["off", "accept", "require"] = knob(
        "off", "Tokens bound to a client's key (RFC 9449). off: such tokens are refused. require: no others."
    )
    shared_audience: bool = knob(
        False,
        "Accept tokens that another of the services accepts too, where that one says so as well: the same audience "
        "of the same issuer. Whoever is let in to one is then let in to the other.",
    )
    documentation: str | None = knob(None, "Page for people who want a token; resource_documentation in the metadata.")
    allow_unauthenticated: bool = knob(
        False, "With mode off, bind beyond loopback. Only where something in front authenticates."
    )

    @field_validator("documentation")
    @classmethod
    def _check_documentation(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)

    @model_validator(mode="after")
    def _check_issuers(self) -> Auth:
        if self.mode == "off":
            return self
        names = [issuer.issuer for issuer in self.issuers]
        if len(set(names)) < len(names):
            raise ValueError("issuers: one issuer is there twice")
        if sum(issuer.introspects for issuer in self.issuers) > 1:
            raise ValueError(
                "issuers: at most one can be asked by introspection, since tokens do not say whose they are"
            )
        return self
