"""When a caller's token may go to the backend.

MCP forbids relaying a client's token to another resource (2026-07-28, authorization "Access Token Privilege
Restriction"). Gateway and backend are therefore one protected resource with one audience, or the token stays here.
docs/security.md has the conditions by number; those that a configuration can break are checked here, at start.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.auth.presets import preset_of
from gateway.settings import Settings, is_loopback

_WHERE = "backend.credentials"
_LISTING = "backend.listing.credentials"


def same_resource_faults(settings: Settings) -> Iterator[str]:
    """What of the configuration stands against showing the backend its callers' tokens; each names a knob."""
    if not settings.shows_callers_token:
        return
    if settings.auth.mode == "off":
        yield f"{_WHERE}.mode: same_resource shows callers' tokens, and with auth.mode: off there are none"
        return
    yield from _audience_faults(settings)
    yield from _way_faults(settings)
    if settings.auth.dpop != "off":
        yield (
            "auth.dpop: a proof is for the gateway's address, so a bound token is of no use to the backend; "
            f"set {_WHERE}.mode: token_exchange"
        )


def _audience_faults(settings: Settings) -> Iterator[str]:
    """F1: one audience for both."""
    audience = settings.backend.credentials.backend_audience
    if audience is None:
        yield (
            f"{_WHERE}.backend_audience: say which audience the backend requires of a token. Calls show it the "
            f"caller's own, which is right only where that is {settings.resource}; "
            f"else set {_WHERE}.mode: token_exchange, client_credentials, static or none"
        )
        return
    for issuer in settings.auth.issuers:
        preset = preset_of(issuer)
        brought = preset.brought_by(issuer.issuer)
        accepted = {settings.resource, *(brought if preset.brings_backend else ())}
        if preset.stands_in:
            accepted |= {*issuer.audiences, *issuer.clients}
        if issuer.audiences:
            accepted &= {*issuer.audiences, *brought}
        if audience not in accepted:
            yield (
                f"{_WHERE}.backend_audience: {audience} is another resource than the gateway's "
                f"({', '.join(sorted(accepted)) or 'none of auth.issuers.audiences'}), "
                f"and a token must not go to another; set {_WHERE}.mode: token_exchange"
            )
            continue
        others = {*issuer.audiences} - {audience, settings.resource, *brought}
        if others and not preset.stands_in and settings.backend.credentials.reject_extra_audiences:
            yield (
                f"auth.issuers.audiences: a token for {', '.join(sorted(others))} alone would be accepted, and shown "
                f"to the backend, which could use it there; leave {settings.resource}, "
                f"or set {_WHERE}.mode: token_exchange"
            )


def _way_faults(settings: Settings) -> Iterator[str]:
    """F4: one fixed origin, reached over a way that nobody reads on."""
    parts = urlsplit(settings.backend.url)
    trusted = settings.backend.credentials.trusted_network
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and not trusted:
        yield (
            f"backend.url: callers' tokens would go over plain http to {parts.hostname}; use https, "
            f"or say {_WHERE}.trusted_network: true where the network itself encrypts"
        )
    place = settings.backend.listing.url
    if place is not None and settings.lists_per_caller and settings.listing_mode == "same_resource":
        there = urlsplit(place)
        if (there.scheme, there.netloc) != (parts.scheme, parts.netloc):
            yield (
                f"backend.listing.url: callers' tokens would go to {there.netloc}, which is not the origin of "
                "backend.url; give the listing a credential of its own and set backend.listing.identity: shared"
            )
    if parts.scheme == "http" and settings.backend.proxy is not None:
        yield "backend.proxy: the proxy would read callers' tokens; use https towards the backend, or no proxy"


def exchange_faults(settings: Settings) -> Iterator[str]:
    """What of the configuration leaves the gateway without the tokens that it is to show; each names a knob."""
    listing = settings.backend.listing
    if listing.identity == "shared" and listing.credentials.mode == "token_exchange":
        yield (
            "backend.listing.credentials.mode: token_exchange asks in a caller's name, and what "
            "backend.listing.identity: shared lists is everybody's; use client_credentials, static or none"
        )
    sections = ((_WHERE, settings.backend.credentials), (_LISTING, listing.credentials))
    if settings.auth.mode != "off":
        for where, section in sections:
            if section.mode == "token_exchange" and section.token_endpoint is None and len(settings.auth.issuers) > 1:
                yield (
                    f"{where}.token_endpoint: must be set with several auth.issuers: it is shown the tokens of each, "
                    "which is for you to decide and not for the first of them"
                )
        return
    for where, section in sections:
        if section.mode == "token_exchange":
            yield f"{where}.mode: token_exchange takes callers' tokens, and with auth.mode: off there are none"
        if section.mode == "client_credentials" and section.token_endpoint is None:
            yield f"{where}.token_endpoint: must be set with auth.mode: off, since no issuer is there to name it"
