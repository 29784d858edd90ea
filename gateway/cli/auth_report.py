"""What ``check`` says of authentication: whether the issuers answer, what is accepted of them, what a client sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from gateway.auth.challenge import www_authenticate
from gateway.auth.claims import IssuerPolicy
from gateway.auth.introspection import IntrospectionVerifier
from gateway.auth.issuers import Issuers
from gateway.auth.jwks import FetchFailed
from gateway.credentials import credential_modes
from gateway.errors import Unauthorized
from gateway.model import Principal
from gateway.service import Service
from gateway.settings import ServiceSettings
from gateway.text import printable


class Findings:
    """The lines of the report, and what of it keeps callers out."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    async def lines(self, service: Service) -> AsyncIterator[str]:
        settings, access, metadata = service.settings, service.access, service.site.metadata
        if metadata is None:
            yield "auth         off: anybody who reaches the port may list and call"
            return
        yield f"resource     {settings.resource}"
        for policy in service.policies:
            async for line in self._issuer(settings, service.issuers, policy):
                yield line
        for line in _ways(settings):
            yield line
        yield "a client without a token sees"
        scheme = "DPoP" if settings.auth.dpop == "require" else "Bearer"
        yield "  401 WWW-Authenticate: " + www_authenticate(
            Unauthorized("", scopes=access.baseline_scopes), metadata.url, scheme
        )
        yield f"  {metadata.url}"
        yield f"  {metadata.body.decode()}"

    async def _issuer(self, settings: ServiceSettings, issuers: Issuers, policy: IssuerPolicy) -> AsyncIterator[str]:
        issuer, preset = policy.issuer, policy.preset
        keys = issuers.keys[issuer.issuer]
        yield f"issuer       {issuer.issuer} (preset {preset.name})"
        if issuer.introspects:
            verifier = IntrospectionVerifier(policy, keys, issuers.outbounds[issuer.issuer])
            try:
                yield f"  asked about each token at {await verifier.endpoint()}"
            except FetchFailed as error:
                yield self._fault(f"{issuer.issuer}: {error}")
        else:
            await keys.refresh()
            if keys.keys is None:
                yield self._fault(f"{issuer.issuer}: {keys.failure}")
            else:
                algorithms = ", ".join(sorted({key.alg for key in keys.keys.keys}))
                yield f"  keys       {len(keys.keys.keys)} ({algorithms})"
                for ignored in keys.keys.ignored:
                    yield printable(f"  not used   {ignored}")
        if issuer.clients:
            yield f"  clients    {', '.join(issuer.clients)}"
        yield f"  audience   {' or '.join(sorted(policy.audiences))}"
        for sentence in preset.loosens:
            yield f"  loosened   {sentence.replace('{issuer}', issuer.issuer)}"
        for sentence in preset.advice:
            yield f"  at issuer  {sentence.replace('{resource}', settings.resource)}"

    def _fault(self, text: str) -> str:
        self.faults.append(text)
        return f"  FAULT      {text}"


def _ways(settings: ServiceSettings) -> Iterator[str]:
    modes = credential_modes(settings)
    yield f"calls show   {modes.calls.shows}"
    whose = "each caller's own" if modes.lists_per_caller else "one for everybody"
    yield f"listing      {whose}, asked for with {modes.effective_listing.shows}"
    if not modes.lists_per_caller:
        yield "  remark     everybody sees all of its methods, whatever the backend would show them"


def principal_lines(principal: Principal) -> Iterator[str]:
    """Who a token says its bearer is."""
    yield f"token        accepted, of {printable(principal.subject)} by client {printable(principal.client) or '-'}"
    yield f"  scopes     {' '.join(sorted(principal.scopes)) or '-'}"
