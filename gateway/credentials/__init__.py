"""Choose, check and build the credential that the gateway sends to the backend. ``_ALL_MODES`` lists the modes."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway.backend.redaction import is_credential_header, looks_secret
from gateway.credentials.caller_headers import CallerHeaders, header_faults
from gateway.credentials.contract import Credential, CredentialModes, credential_sections
from gateway.credentials.exchange import ClientCredentials, TokenExchange
from gateway.credentials.fixed import BasicCredential, DigestCredential, NoCredential, StaticCredential
from gateway.credentials.grants import TokenClient
from gateway.credentials.login import LoginCredential
from gateway.credentials.same_resource import SameResource
from gateway.settings import Credentials, GroupSettings, ListingCredentials, Send, ServiceSettings
from gateway.text import did_you_mean

_ALL_MODES: Final[tuple[type[Credential], ...]] = (
    SameResource,
    TokenExchange,
    ClientCredentials,
    StaticCredential,
    BasicCredential,
    DigestCredential,
    LoginCredential,
    NoCredential,
)

MODES: Final = {mode.name: mode for mode in _ALL_MODES}
"""Every mode by its name, in the order of the help text."""
AUTO: Final = "auto"
"""The mode that means one of the others, see :func:`credential_modes`."""
HELP: Final = (
    " ".join(f"{mode.name}: {mode.shows}." for mode in _ALL_MODES)
    + f" {AUTO}: {SameResource.name} with auth.mode: jwt, else {NoCredential.name}."
    + f" Under backend.listing, {AUTO} is the mode of backend.credentials."
)


def credential_modes(settings: ServiceSettings) -> CredentialModes:
    """Return the modes of a service, with ``auto`` resolved. Raises :class:`KeyError` for an unknown mode."""
    default = SameResource if settings.auth.traits.has_issuers else NoCredential
    calls = (MODES | {AUTO: default})[settings.backend.credentials.mode]
    section = settings.backend.listing
    listing = (MODES | {AUTO: calls})[section.credentials.mode]
    per_caller = section.identity == "caller" or (section.identity == "auto" and listing.per_caller)
    # Without tokens callers cannot be told apart, and a static listing is the same for all.
    per_caller = per_caller and settings.auth.traits.authenticates and section.dialect != "static"
    effective = NoCredential if listing.per_caller and not per_caller else listing
    return CredentialModes(calls, listing, effective, per_caller)


def section_faults(section: Credentials | ListingCredentials, shared: str = "") -> Iterator[str]:
    """Yield faults of mode and knobs. ``shared`` is the path of the section that a listing's was completed from."""
    mode = (MODES | {AUTO: Credential}).get(section.mode)
    if mode is None:
        known = (AUTO, *MODES)
        yield f"mode: must be one of {', '.join(known)}{did_you_mean(section.mode, known)}"
        return
    missing = [knobs for knobs in mode.needs if not any(getattr(section, knob, True) for knob in knobs)]
    if missing:
        of = f" of {shared}" if shared and not {*missing[0]} & {*ListingCredentials.model_fields} else ""
        yield f"mode: {section.mode} needs {', '.join(' or '.join(knobs) for knobs in missing)}{of}"
    for knob in mode.refuses:
        # A listing's section that was completed from that of calls also has what only the mode of calls uses.
        if getattr(section, knob, None) is not None and not shared:
            fitting = ", ".join(other.name for other in _ALL_MODES if any(knob in group for group in other.needs))
            yield f"mode: {section.mode} takes no {knob}, which is for mode: {fitting}"
    if isinstance(section, Credentials):
        yield from section.name_faults()


def credential_faults(settings: ServiceSettings) -> list[str]:
    """Return why a service's credentials cannot be as configured; each fault names a knob."""
    faults: list[str] = []
    sections = credential_sections(settings)
    for where, section in sections:
        shared = "" if section is settings.backend.credentials else settings.knob("backend.credentials")
        faults += [f"{where}: {fault}" for fault in section_faults(section, shared)]
    if faults:
        return faults
    modes, auth = credential_modes(settings), settings.auth
    for where, section in sections:
        if not auth.traits.has_issuers and section.mode != AUTO and MODES[section.mode].per_caller:
            known = f"with {settings.knob('auth.mode')}: {auth.mode} there are none"
            faults.append(f"{where}.mode: {section.mode} needs callers' tokens, and {known}")
    if auth.takes_keys and auth.traits.has_issuers:  # else there are no tokens at all, as was said
        shown = dict(zip((where for where, _ in sections), (modes.calls, modes.listing), strict=True))
        for where, mode in shown.items():
            if mode.per_caller:
                others = ", ".join(other.name for other in _ALL_MODES if not other.per_caller)
                faults.append(
                    f"{where}.mode: {mode.name} sends callers' tokens, and an API key of "
                    f"{settings.knob('auth.keys.file')} is none: set one of {others}"
                )
    faults += header_faults(settings, modes)
    faults += _wire_faults(settings, modes)
    listing = settings.backend.listing
    if listing.identity == "shared" and listing.credentials.mode != AUTO and modes.listing.per_caller:
        faults.append(
            f"{settings.knob('backend.listing.credentials.mode')}: {modes.listing.name} asks in a caller's name, but "
            f"with {settings.knob('backend.listing.identity')}: shared all callers get the same listing; "
            f"use {', '.join(mode.name for mode in _ALL_MODES if not mode.per_caller)}"
        )
    if not faults:
        faults += [
            fault for mode in dict.fromkeys((modes.calls, modes.listing)) for fault in mode.faults(settings, modes)
        ]
    return faults


def group_faults(group: GroupSettings) -> Iterator[str]:
    """Yield why services of a group cannot be sent the tokens of its callers, which are for the group."""
    for member in group.members:
        modes = credential_modes(member)
        if not (modes.calls.uses_callers_token or modes.listing.uses_callers_token):
            continue
        ours, theirs = group.auth, member.auth
        audiences = {issuer.issuer: {*issuer.audiences} for issuer in theirs.active_issuers}
        one_audience = ours.shared_audience and theirs.shared_audience and all(
            {*issuer.audiences} and {*issuer.audiences} <= audiences.get(issuer.issuer, set())
            for issuer in ours.active_issuers
        )  # fmt: skip
        if not one_audience:
            yield (
                f"{member.knob('backend.credentials.mode')}: {SameResource.name} sends callers' tokens, and those of "
                f"the group {group.name} are for {group.resource}: set {TokenExchange.name} there; or set "
                f"{group.knob('auth.shared_audience')} and {member.knob('auth.shared_audience')} to true and the same "
                f"audiences in both, where one token may be good for both; or leave {member.name} out of the group"
            )


_WHY: Final = {
    "http": "all requests go to one Unix socket",
    "websocket": "a WebSocket is opened once for all callers",
    "stream": "this is no HTTP",
}


def _wire_faults(settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
    """Yield what cannot be told to a service that is reached otherwise than by requests of HTTP to a host."""
    backend, listing, login = settings.backend, settings.backend.listing, settings.backend.credentials.login
    if backend.wire == "http" and backend.socket is None:
        return
    why = _WHY[backend.wire]
    given: dict[str, object] = {"proxy": backend.proxy, "listing.url": listing.url}
    if backend.wire != "http":
        given |= {"caller_headers": backend.caller_headers, "listing.language": listing.language,
                  "credentials.login.endpoint": login and login.endpoint}  # fmt: skip
    if backend.wire == "stream":
        given["headers"] = backend.headers
    yield from (f"{settings.knob('backend')}.{knob}: take it out, since {why}" for knob in given if given[knob])
    if backend.wire == "http":
        return
    used, fitting = (modes.calls, modes.effective_listing), f"{NoCredential.name} or {StaticCredential.name}"
    for (where, section), mode in zip(credential_sections(settings), used, strict=True):
        sent = section.send or Send()
        if mode.per_caller or mode.answers_challenges:
            meant = f"{AUTO} means {mode.name} here" if section.mode == AUTO else f"it cannot be {mode.name}"
            yield f"{where}.mode: {meant}, but {why}; set {fitting}"
        elif backend.wire == "stream" and (mode in (BasicCredential, ClientCredentials) or sent.headers or sent.query):
            yield f"{where}: {why}, so a credential goes into send.message, params or arguments; set {fitting}"


def build_credentials(
    settings: ServiceSettings, tokens: Callable[[Credentials], TokenClient]
) -> tuple[Credential, Credential]:
    """Return the credentials of calls and of the listing. ``tokens`` returns the token client of a section."""
    modes = credential_modes(settings)
    (_, calls), (_, listing) = credential_sections(settings)
    credential = modes.calls(tokens(calls))
    shares = listing.mode == AUTO and modes.effective_listing is modes.calls  # so that both share its cached tokens
    of_listing = credential if shares else modes.effective_listing(tokens(listing))
    for one, section in ((credential, calls), (of_listing, listing)):
        if isinstance(one, NoCredential) and header_secrets(settings):  # backend.headers have one
            one.tries = tokens(section).tries
    if headers := settings.backend.caller_headers:
        return CallerHeaders(credential, headers, True), CallerHeaders(of_listing, headers, False)
    return credential, of_listing


def correct_credentials(settings: ServiceSettings) -> str:
    """Return what to do about a credential that the service does not accept."""
    own = settings.backend.listing.credentials.mode != "auto"
    where = settings.knob("backend.listing.credentials" if own else "backend.credentials")
    return f"Correct {where}, whose mode is {credential_modes(settings).effective_listing.name}."


def section_secrets(section: Credentials) -> list[Any]:
    """Return what makes one credential another: what a section says of it, with its secrets."""
    password, login, send = section.password, section.login, section.send
    params = None if login is None or login.params is None else login.params.get_secret_value()
    secret = None if password is None else password.get_secret_value()
    return [section.mode, section.user, secret, params, None if send is None else send.revealed()]


def header_secrets(settings: ServiceSettings) -> tuple[str, ...]:
    """Return the values of fixed headers that must not appear in an answer or a log."""
    fixed = {name: value.get_secret_value() for name, value in settings.backend.headers.items()}
    certain = (value for name, value in fixed.items() if is_credential_header(name))
    return (*certain, *filter(looks_secret, fixed.values()))
