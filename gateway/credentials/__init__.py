"""What the gateway shows the backend on behalf of a caller: the modes, and what the settings make of them.

A mode is one file with one class, and stands in ``_KNOWN``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Final

from gateway.credentials.client_credentials import ClientCredentials
from gateway.credentials.contract import Credential, Ways, sections_of
from gateway.credentials.exchange import TokenExchange
from gateway.credentials.grants import TokenClient
from gateway.credentials.none import NoCredential
from gateway.credentials.same_resource import SameResource
from gateway.credentials.static import StaticCredential
from gateway.settings import Credentials, ListingCredentials, ServiceSettings

__all__ = ["AUTO", "HELP", "MODES", "Credential", "Ways", "credentials_of", "faults_of", "section_faults", "ways_of"]

_KNOWN: Final[tuple[type[Credential], ...]] = (
    SameResource,
    TokenExchange,
    ClientCredentials,
    StaticCredential,
    NoCredential,
)

MODES: Final = {mode.name: mode for mode in _KNOWN}
"""Every mode by its name, in the order of the help text."""
AUTO: Final = "auto"
"""What stands for one of them, see :func:`ways_of`."""
HELP: Final = (
    " ".join(f"{mode.name}: {mode.shows}." for mode in _KNOWN)
    + f" {AUTO}: {SameResource.name} with auth.mode: jwt, else {NoCredential.name}."
    + f" Under backend.listing, {AUTO} is what backend.credentials says."
)


def ways_of(settings: ServiceSettings) -> Ways:
    """What ``auto`` stands for is decided here. Raises :class:`KeyError` for a mode that is not known."""
    usual = NoCredential if settings.auth.mode == "off" else SameResource
    calls = (MODES | {AUTO: usual})[settings.backend.credentials.mode]
    asked = settings.backend.listing
    listing = (MODES | {AUTO: calls})[asked.credentials.mode]
    own = asked.identity == "caller" or (asked.identity == "auto" and listing.per_caller)
    own = own and settings.auth.mode != "off" and asked.dialect != "static"
    return Ways(calls, listing, NoCredential if listing.per_caller and not own else listing, own)


def section_faults(section: Credentials | ListingCredentials, shared: str = "") -> Iterator[str]:
    """Yield what keeps a section from being of its mode: the mode itself, or knobs that are missing or too many. What
    a listing's section has of ``backend.credentials`` is judged once both are there, by :func:`faults_of`; ``shared``
    is then where it stands."""
    mode = (MODES | {AUTO: Credential}).get(section.mode)
    if mode is None:
        known = (AUTO, *MODES)
        meant = difflib.get_close_matches(section.mode, known, n=1)
        yield f"mode: must be one of {', '.join(known)}" + "".join(f"; did you mean {name}?" for name in meant)
        return
    missing = [knobs for knobs in mode.needs if not any(getattr(section, knob, True) for knob in knobs)]
    if missing:
        of = f" of {shared}" if shared and not {*missing[0]} & {*ListingCredentials.model_fields} else ""
        yield f"mode: {section.mode} needs {', '.join(' or '.join(knobs) for knobs in missing)}{of}"
    for knob in mode.refuses:
        if getattr(section, knob) is not None:
            fitting = ", ".join(other.name for other in _KNOWN if (knob,) in other.needs)
            yield f"mode: {section.mode} takes no {knob}, which is for mode: {fitting}"


def faults_of(settings: ServiceSettings) -> list[str]:
    """What stands against showing the backend what the settings say; each names a knob."""
    faults: list[str] = []
    sections = sections_of(settings)
    for where, section in sections:
        shared = "" if section is settings.backend.credentials else settings.knob("backend.credentials")
        faults += [f"{where}: {fault}" for fault in section_faults(section, shared)]
    if faults:
        return faults
    ways, off = ways_of(settings), settings.knob("auth.mode")
    for where, section in sections:
        if settings.auth.mode == "off" and section.mode != AUTO and MODES[section.mode].per_caller:
            faults.append(f"{where}.mode: {section.mode} takes callers' tokens, and with {off}: off there are none")
    listing = settings.backend.listing
    if listing.identity == "shared" and listing.credentials.mode != AUTO and ways.listing.per_caller:
        faults.append(
            f"{settings.knob('backend.listing.credentials.mode')}: {ways.listing.name} asks in a caller's name, and "
            f"what {settings.knob('backend.listing.identity')}: shared lists is everybody's; "
            f"use {', '.join(mode.name for mode in _KNOWN if not mode.per_caller)}"
        )
    if not faults:
        faults += [fault for mode in dict.fromkeys((ways.calls, ways.listing)) for fault in mode.faults(settings, ways)]
    return faults


def credentials_of(
    settings: ServiceSettings, tokens: Callable[[Credentials], TokenClient]
) -> tuple[Credential, Credential]:
    """What calls are made with, and what the listing is asked with; ``tokens`` is where a section's tokens are had."""
    ways = ways_of(settings)
    (_, calls), (_, listing) = sections_of(settings)
    credential = ways.calls(tokens(calls))
    if listing.mode == AUTO and ways.asked is ways.calls:
        return credential, credential  # with the tokens that it keeps
    return credential, ways.asked(tokens(listing))
