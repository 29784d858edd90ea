"""Send the caller's own token, to a backend that is one protected resource with the gateway.

MCP forbids relaying a client's token to another resource (2026-07-28, authorization "Access Token Privilege
Restriction"). docs/security.md has the conditions by number; those that a configuration can break are checked here.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from gateway.auth.presets import preset_of
from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential, CredentialModes
from gateway.model import Caller
from gateway.settings import ServiceSettings, is_loopback

_SECTION: Final = "backend.credentials"


class SameResource(Credential):
    """Send the caller's own token. For a caller without one, where auth.anonymous lets it in, send no credential."""

    name = "same_resource"
    shows = "the caller's own token; gateway and backend are one protected resource"
    per_caller = True
    uses_callers_token = True

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        where = settings.knob(_SECTION if modes.calls is cls else "backend.listing.credentials")
        yield from _audience_faults(settings, where)
        yield from _transport_faults(settings, modes)
        if settings.auth.dpop != "off":
            yield (
                f"{settings.knob('auth.dpop')}: a proof is made for the gateway's address, so the backend cannot "
                f"accept a token that is bound to a key; set {where}.mode: token_exchange"
            )

    async def request_parts(self, caller: Caller) -> RequestParts:
        if (token := caller.token) is None:
            return RequestParts(callers_own=True)
        return RequestParts({"Authorization": f"Bearer {token.reveal()}"}, callers_own=True)


def _audience_faults(settings: ServiceSettings, where: str) -> Iterator[str]:
    """Yield faults of condition F1, one audience for both. ``where`` is the section whose mode sends tokens."""
    audience, issuers = settings.backend.credentials.backend_audience, settings.knob("auth.issuers")
    if audience is None:
        yield (
            f"{settings.knob(_SECTION)}.backend_audience: set it to the audience that the backend requires of a "
            f"token. Callers' tokens may be sent to the backend only where that is {settings.resource}; "
            f"else set {where}.mode: token_exchange, client_credentials, static or none"
        )
        return
    for issuer in settings.auth.issuers:
        preset = preset_of(issuer)
        added = preset.audiences_added_by(issuer.issuer)
        accepted = {settings.resource, *(added if preset.backend_may_require_added else ())}
        if preset.has_substitute_audience:
            accepted |= {*issuer.audiences, *issuer.clients}
        if issuer.audiences:
            accepted &= {*issuer.audiences, *added}
        if audience not in accepted:
            yield (
                f"{settings.knob(_SECTION)}.backend_audience: {audience} is not the gateway's resource "
                f"({', '.join(sorted(accepted)) or f'none of {issuers}.audiences'}), "
                f"and a token must not be sent to another one; set {where}.mode: token_exchange"
            )
            continue
        others = {*issuer.audiences} - {audience, settings.resource, *added}
        if others and not preset.has_substitute_audience and settings.backend.credentials.reject_extra_audiences:
            yield (
                f"{issuers}.audiences: a token for {', '.join(sorted(others))} alone would be accepted and sent to "
                f"the backend, which could misuse it there; accept only {settings.resource}, "
                f"or set {where}.mode: token_exchange"
            )


def _transport_faults(settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
    """Yield faults of condition F4: one fixed origin, over connections that no third party can read."""
    parts = urlsplit(settings.backend.url)
    trusted = settings.backend.credentials.trusted_network
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and not trusted:
        yield (
            f"{settings.knob('backend.url')}: callers' tokens would go over plain http to {parts.hostname}; use https, "
            f"or set {settings.knob(_SECTION)}.trusted_network: true where the network itself encrypts"
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
