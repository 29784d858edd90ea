"""The caller's own token, for a backend that is one protected resource with the gateway.

MCP forbids relaying a client's token to another resource (2026-07-28, authorization "Access Token Privilege
Restriction"). Gateway and backend are therefore one protected resource with one audience, or the token stays here.
docs/security.md has the conditions by number; those that a configuration can break are checked here, at start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from gateway.auth.presets import preset_of
from gateway.credentials.contract import Credential, CredentialModes
from gateway.model import Caller
from gateway.settings import ServiceSettings, is_loopback

_SECTION: Final = "backend.credentials"


class SameResource(Credential):
    """A caller without a token, where such are let in, is shown as one: with nothing."""

    name = "same_resource"
    shows = "the caller's own token; gateway and backend are one protected resource"
    per_caller = True
    uses_callers_token = True

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        where = settings.knob(_SECTION if modes.calls is cls else "backend.listing.credentials")
        yield from _audience_faults(settings, where)
        yield from _way_faults(settings, modes)
        if settings.auth.dpop != "off":
            yield (
                f"{settings.knob('auth.dpop')}: a proof is for the gateway's address, so a bound token is of no use to "
                f"the backend; set {where}.mode: token_exchange"
            )

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        if caller.principal is None:
            return {}
        return {"Authorization": f"Bearer {caller.principal.token.reveal()}"}


def _audience_faults(settings: ServiceSettings, where: str) -> Iterator[str]:
    """F1: one audience for both. ``where`` is the section whose mode shows tokens."""
    audience, issuers = settings.backend.credentials.backend_audience, settings.knob("auth.issuers")
    if audience is None:
        yield (
            f"{settings.knob(_SECTION)}.backend_audience: say which audience the backend requires of a token. "
            f"It is shown the caller's own, which is right only where that is {settings.resource}; "
            f"else set {where}.mode: token_exchange, client_credentials, static or none"
        )
        return
    for issuer in settings.auth.issuers:
        preset = preset_of(issuer)
        brought = preset.audiences_added_by(issuer.issuer)
        accepted = {settings.resource, *(brought if preset.backend_may_require_added else ())}
        if preset.has_substitute_audience:
            accepted |= {*issuer.audiences, *issuer.clients}
        if issuer.audiences:
            accepted &= {*issuer.audiences, *brought}
        if audience not in accepted:
            yield (
                f"{settings.knob(_SECTION)}.backend_audience: {audience} is another resource than the gateway's "
                f"({', '.join(sorted(accepted)) or f'none of {issuers}.audiences'}), "
                f"and a token must not go to another; set {where}.mode: token_exchange"
            )
            continue
        others = {*issuer.audiences} - {audience, settings.resource, *brought}
        if others and not preset.has_substitute_audience and settings.backend.credentials.reject_extra_audiences:
            yield (
                f"{issuers}.audiences: a token for {', '.join(sorted(others))} alone would be accepted, and shown "
                f"to the backend, which could use it there; leave {settings.resource}, "
                f"or set {where}.mode: token_exchange"
            )


def _way_faults(settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
    """F4: one fixed origin, reached over a way that nobody reads on."""
    parts = urlsplit(settings.backend.url)
    trusted = settings.backend.credentials.trusted_network
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and not trusted:
        yield (
            f"{settings.knob('backend.url')}: callers' tokens would go over plain http to {parts.hostname}; use https, "
            f"or say {settings.knob(_SECTION)}.trusted_network: true where the network itself encrypts"
        )
    listing_url = settings.backend.listing.url
    if listing_url is not None and modes.lists_per_caller and modes.listing is SameResource:
        there = urlsplit(listing_url)
        if (there.scheme, there.netloc) != (parts.scheme, parts.netloc):
            yield (
                f"{settings.knob('backend.listing.url')}: callers' tokens would go to {there.netloc}, which is not the "
                f"origin of {settings.knob('backend.url')}; give the listing a credential of its own and set "
                f"{settings.knob('backend.listing.identity')}: shared"
            )
    if parts.scheme == "http" and settings.backend.proxy is not None:
        knob = settings.knob("backend.proxy")
        yield f"{knob}: the proxy would read callers' tokens; use https towards the backend, or no proxy"
