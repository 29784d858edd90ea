"""Tell the service who calls, by headers that the operator names: for services that trust the gateway.

The values come from what was verified of the caller, never from a header that a client sent: these are not forwarded.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from gateway.auth.claims import header_text
from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential, CredentialModes
from gateway.errors import BackendDenied
from gateway.model import Caller, Principal
from gateway.settings import ServiceSettings
from gateway.settings.auth import Auth
from gateway.settings.sending import PRINCIPAL_NAME, CallerHeader

MAX_BYTES: Final = 4096
"""Longest value of one header. A longer one is as a missing claim: a part of a list of groups says another thing."""


class CallerHeaders(Credential):
    """Send what another credential sends, with the headers about the caller."""

    def __init__(self, inner: Credential, headers: Mapping[str, CallerHeader], enforces: bool) -> None:
        """``enforces``: a caller without a required claim is refused. A listing goes without it."""
        self._inner = inner
        self.tries = inner.tries
        self._headers = headers
        self._enforces = enforces

    async def request_parts(self, caller: Caller) -> RequestParts:
        found = {name: self._value(header, caller.principal) for name, header in self._headers.items()}
        lacking = [name for name, value in found.items() if value is None and self._headers[name].required]
        if lacking and self._enforces:
            raise BackendDenied(
                f"The service must know who calls, and this token does not say it ({', '.join(lacking)})"
            )
        parts = await self._inner.request_parts(caller)
        about = {name: value for name, value in found.items() if value is not None}
        # What names the caller is no secret: results may have it.
        return replace(parts, headers={**parts.headers, **about}, _secrets=parts.secrets, written_secrets=None)

    def discard_token(self, caller: Caller) -> None:
        self._inner.discard_token(caller)

    def secrets(self) -> tuple[str, ...]:
        return self._inner.secrets()

    def _value(self, header: CallerHeader, principal: Principal | None) -> str | None:
        """Return the template filled, None where a value is missing."""
        values = {} if principal is None else _values_of(principal)
        names = PRINCIPAL_NAME.findall(header.value)
        if not all(values.get(name) for name in names):
            return None
        text = PRINCIPAL_NAME.sub(lambda match: values[match[1]], header.value)
        return text if len(text) <= MAX_BYTES else None


def _values_of(principal: Principal) -> dict[str, str]:
    """Return each name that templates may use with its value, "" where there is none."""
    own = {"sub": principal.subject, "iss": principal.issuer, "client": principal.client}
    given = {name: header_text(value) for name, value in own.items()}
    given["scopes"] = header_text(" ".join(sorted(principal.scopes)))
    return given | {f"claims.{name}": text for name, text in principal.claims}


def header_faults(settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
    """Yield why the headers of a service cannot stand beside its credential; each fault names a knob."""
    backend = settings.backend
    for knob, headers in (("caller_headers", backend.caller_headers), ("headers", backend.headers)):
        if headers and (modes.calls.uses_callers_token or modes.listing.uses_callers_token):
            # docs/security.md, condition F7: nothing beside the token says who calls.
            yield (
                f"{settings.knob('backend')}.{knob}: with same_resource the caller's token alone says who calls; take "
                f"{knob} out, or set another {settings.knob('backend.credentials.mode')}"
            )
    if any(header.required for header in backend.caller_headers.values()) and not settings.auth.traits.authenticates:
        mode = f"{settings.knob('auth.mode')}: {settings.auth.mode}"
        where = settings.knob("backend.caller_headers")
        yield f"{where}: a required one refuses every call, because with {mode} nobody is known"
    yield from identity_faults(settings)
    send = backend.credentials.send
    groups: dict[str, Iterable[str]] = {"headers": backend.headers, "caller_headers": backend.caller_headers}
    groups["credentials.send.headers"] = send.headers if send else ()
    places: dict[str, str] = {}
    for group, names in groups.items():
        for name in names:
            # Services that read headers by CGI (RFC 3875 §4.1.18) cannot tell these apart.
            first = places.setdefault(name.lower().replace("_", "-"), f"{group}.{name}")
            if first != f"{group}.{name}":
                yield f"{settings.knob('backend')}.{group}: {name} is there twice, also as {first}: keep one"


def identity_faults(settings: ServiceSettings, of_groups: Iterable[Auth] = ()) -> Iterator[str]:
    """Yield why a service cannot tell apart whom it is told of: several issuers, or an issuer and a key file, may give
    two people the same name. ``of_groups`` says who may call through the groups of the service."""
    told = {
        name for header in settings.backend.caller_headers.values() for name in PRINCIPAL_NAME.findall(header.value)
    }
    names = sorted(told & {"sub", "client"})
    sources = list(dict.fromkeys(source for auth in (settings.auth, *of_groups) for source in _sources(auth)))
    if names and "iss" not in told and len(sources) > 1:
        yield (
            f"{settings.knob('backend.caller_headers')}: {{{names[0]}}} may be two people, of {sources[0]} and of "
            f"{sources[1]}: tell {{iss}} too, in the same header or in one of its own ({{X-Issuer: '{{iss}}'}})"
        )


def _sources(auth: Auth) -> Iterator[str]:
    """Yield who gives callers their names."""
    yield from (issuer.issuer for issuer in auth.active_issuers)
    if auth.takes_keys:
        yield f"the API keys of {auth.keys.file}"
