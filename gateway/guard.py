"""Assembly of who may enter: issuers, their keys, verifiers and the caller's token, from the settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway import config
from gateway.auth.access import Access
from gateway.auth.addresses import reach_of
from gateway.auth.authenticator import Authenticator
from gateway.auth.claims import Policy, policy_of
from gateway.auth.dpop import Proofs
from gateway.auth.introspection import GOOGLE, IntrospectionVerifier
from gateway.auth.jwks import FetchFailed, IssuerKeys
from gateway.auth.metadata import ResourceMetadata, resource_metadata_of
from gateway.auth.verifier import SignatureVerifier, Verifiers
from gateway.background import Background
from gateway.credentials import ways_of
from gateway.model import ANONYMOUS, Caller
from gateway.outbound import Outbound, TlsFiles
from gateway.settings import Credentials, Issuer, ServiceSettings
from gateway.store import Store


@dataclass
class Trust:
    """The issuers of one gateway, none with ``auth.mode: off``, and the way to each by its name; where there is none,
    one way to wherever the settings say."""

    issuers: tuple[tuple[Policy, IssuerKeys], ...]
    outbounds: dict[str, Outbound]

    def start(self, background: Background) -> None:
        """Fetch keys, and keep them fresh."""
        for policy, keys in self.issuers:
            if not policy.issuer.introspects:
                background.start(f"keys of {policy.issuer.issuer}", keys.keep_fresh)

    def unready(self) -> str | None:
        """Why tokens cannot be verified. One issuer of several that cannot be reached is no reason, once tried."""
        lacking = [keys for policy, keys in self.issuers if not policy.issuer.introspects and keys.keys is None]
        untried = not all(keys.attempted.is_set() for keys in lacking)
        if lacking and (untried or len(lacking) == len(self.issuers)):
            return f"no keys of {lacking[0].issuer.issuer}"
        return None

    def token_endpoint(self, settings: Credentials) -> Callable[[], Awaitable[str]]:
        """Where tokens for the backend are had: as configured, else as the first issuer says."""

        async def place() -> str:
            if settings.token_endpoint is not None:
                return settings.token_endpoint
            if not self.issuers:
                raise FetchFailed("with auth.mode: off there is no issuer to tell; set token_endpoint")
            endpoint = (await self.issuers[0][1].metadata()).token_endpoint
            if endpoint is None:
                raise FetchFailed("the issuer's metadata have no token_endpoint; set token_endpoint")
            return endpoint

        return place

    def outbound(self) -> Outbound:
        """The way to the first issuer."""
        return next(iter(self.outbounds.values()))

    async def close(self) -> None:
        for outbound in self.outbounds.values():
            await outbound.close()


def trust_of(settings: ServiceSettings) -> Trust:
    """Raises :class:`config.ConfigError` where a CA file cannot be used."""
    issuers = settings.auth.issuers if settings.auth.mode != "off" else ()
    outbounds = {issuer.issuer: _outbound(settings, issuer) for issuer in issuers} or {"": Outbound(connections=20)}
    pairs = [(_policy(settings, issuer), IssuerKeys(issuer, outbounds[issuer.issuer])) for issuer in issuers]
    return Trust(tuple(pairs), outbounds)


def _outbound(settings: ServiceSettings, issuer: Issuer) -> Outbound:
    backend = settings.backend
    tokens = (backend.credentials.token_endpoint, backend.listing.credentials.token_endpoint)
    knob = settings.knob("auth.issuers.ca_file")
    tls = TlsFiles(issuer.ca_file, ca_knob=knob)
    try:
        return Outbound(connections=20, tls=tls, reach=reach_of(issuer, GOOGLE, *tokens))
    except OSError as error:
        raise config.ConfigError([f"{knob}: {error.filename}: {error.strerror}"]) from None


def _policy(settings: ServiceSettings, issuer: Issuer) -> Policy:
    ways = ways_of(settings)
    shown = ways.calls.callers_own or ways.listing.callers_own
    extra = not (shown and settings.backend.credentials.reject_extra_audiences)
    return policy_of(issuer, settings.resource, extra_audiences=extra, implies=settings.auth.scopes.implies)


def access_of(settings: ServiceSettings) -> Access:
    return Access(settings.auth, per_caller=ways_of(settings).lists_per_caller)


def verifier_of(trust: Trust) -> Verifiers:
    signed = [(policy, keys) for policy, keys in trust.issuers if not policy.issuer.introspects]
    asked = [(policy, keys) for policy, keys in trust.issuers if policy.issuer.introspects]
    asks = IntrospectionVerifier(*asked[0], trust.outbounds[asked[0][0].issuer.issuer]) if asked else None
    return Verifiers(
        SignatureVerifier(signed) if signed else None,
        asks,
        frozenset(policy.issuer.issuer for policy, _ in asked),
    )


def authenticator_of(settings: ServiceSettings, trust: Trust, access: Access, store: Store) -> Authenticator | None:
    """None with ``auth.mode: off``."""
    if settings.auth.mode == "off":
        return None
    proofs = None if settings.auth.dpop == "off" else Proofs(settings.origin, store)
    return Authenticator(verifier_of(trust), scopes=access.baseline, dpop=settings.auth.dpop, proofs=proofs)


def metadata_of(settings: ServiceSettings, access: Access, name: str) -> ResourceMetadata | None:
    """None with ``auth.mode: off``."""
    if settings.auth.mode == "off":
        return None
    return resource_metadata_of(settings, access.baseline, name)


async def caller_of_token(trust: Trust, access: Access, raw: str | None) -> Caller:
    """Who the bearer of a token is. Raises :class:`~gateway.auth.refusals.InvalidToken`,
    :class:`~gateway.auth.refusals.Undecidable`."""
    if raw is None:
        return ANONYMOUS
    principal = (await verifier_of(trust).verify(raw)).principal
    return Caller(view=access.view_of(principal), principal=principal)
