"""Report on authentication for ``check``: whether the issuers answer, which tokens are accepted, what clients see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from gateway.auth.challenge import www_authenticate
from gateway.auth.claims import IssuerPolicy
from gateway.auth.introspection import IntrospectionVerifier
from gateway.auth.issuers import Issuers
from gateway.auth.jwks import FetchFailed
from gateway.auth.metadata import ANOTHER_ISSUER
from gateway.credentials import credential_modes
from gateway.errors import Unauthorized
from gateway.model import Principal
from gateway.service import Service
from gateway.settings import ServiceSettings
from gateway.text import printable


class Findings:
    """Make the lines of the report. ``faults`` are those that keep all callers out, ``issuers`` what docs/checking.md
    says of each."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.issuers: list[dict[str, Any]] = []

    async def lines(self, service: Service) -> AsyncIterator[str]:
        """Yield the lines. Contacts each issuer."""
        settings, access, metadata = service.settings, service.access, service.site.metadata
        if metadata is None:
            yield "auth         off: every client that reaches the port may list and call"
            return
        yield f"resource     {settings.resource}"
        for policy in service.auth.policies:
            async for line in self._issuer(settings, service.auth.issuers, policy):
                yield line
        for line in _credential_lines(settings):
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
        found: dict[str, Any] = {"issuer": issuer.issuer, "preset": preset.name, "audiences": sorted(policy.audiences)}
        self.issuers.append(found | {"fault": None})
        yield f"issuer       {issuer.issuer} (preset {preset.name})"
        if issuer.introspects:
            verifier = IntrospectionVerifier(policy, keys, issuers.outbounds[issuer.issuer])
            try:
                yield f"  introspects each token at {await verifier.endpoint()}"
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
                try:
                    await keys.get_metadata()
                except FetchFailed as error:
                    if ANOTHER_ISSUER in str(error):
                        yield self._fault(f"{issuer.issuer}: {error}; clients that log in refuse it")
        if issuer.clients:
            yield f"  clients    {', '.join(issuer.clients)}"
        yield f"  audience   {' or '.join(sorted(policy.audiences))}"
        for sentence in preset.loosens:
            yield f"  loosened   {sentence.replace('{issuer}', issuer.issuer)}"
        for sentence in preset.advice:
            yield f"  at issuer  {sentence.replace('{resource}', settings.resource)}"

    def _fault(self, text: str) -> str:
        self.faults.append(text)
        self.issuers[-1]["fault"] = text
        return f"  FAULT      {text}"


def _credential_lines(settings: ServiceSettings) -> Iterator[str]:
    modes = credential_modes(settings)
    yield f"calls send   {modes.calls.shows}"
    whose = "each caller's own" if modes.lists_per_caller else "one for all callers"
    yield f"listing      {whose}, fetched with {modes.effective_listing.shows}"
    if not modes.lists_per_caller:
        yield "  remark     every caller sees all of its methods, even those that the backend would hide from it"


def principal_lines(principal: Principal) -> Iterator[str]:
    """Yield who the bearer of an accepted token is."""
    yield f"token        accepted, of {printable(principal.subject)} by client {printable(principal.client) or '-'}"
    yield f"  scopes     {' '.join(sorted(principal.scopes)) or '-'}"
