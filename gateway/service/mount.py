"""Hold what outlasts one service object: what belongs to its path, and what its successor may share on a reload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.auth.api_keys import KeyRing
from gateway.auth.authenticator import Authenticator
from gateway.auth.claims import IssuerPolicy, issuer_policy
from gateway.auth.dpop import ProofChecker
from gateway.auth.issuers import Issuers, TokenVerifier
from gateway.backend.admission import BackendGate
from gateway.backend.params import ParamStructures
from gateway.backend.unfinished import UnfinishedMessages
from gateway.config.service_files import ServiceFiles
from gateway.credentials import credential_modes
from gateway.discovery.subscriptions import Subscriptions
from gateway.discovery.tool_search import ToolSearch
from gateway.discovery.views import BrokenOutputSchemas
from gateway.http_server.held_bytes import HeldBytes
from gateway.limits import ConcurrencyLimit, StreamLimit
from gateway.mcp.elicitation import PendingElicitations
from gateway.mcp.running import RunningCalls
from gateway.schema.validation import ValidatorCache
from gateway.settings import ResourceSettings, ServiceSettings
from gateway.store import Store

_MAX_HELD: Final = 2**28
"""Bytes, where no server says how many."""


@dataclass(frozen=True)
class Mount:
    """Hold the streams that clients have open, how many streams and calls each client has, the calls that they may
    cancel by id, and the questions to their users. ``held`` and ``unfinished`` count for the whole process."""

    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    streams: StreamLimit = field(default_factory=StreamLimit)
    concurrency: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    calls: RunningCalls = field(default_factory=RunningCalls)
    elicitations: PendingElicitations = field(default_factory=PendingElicitations)
    held: HeldBytes = field(default_factory=lambda: HeldBytes(_MAX_HELD))
    unfinished: UnfinishedMessages = field(default_factory=lambda: UnfinishedMessages(lambda _: True, _MAX_HELD))

    async def close(self) -> None:
        """End the streams, and the calls whose clients are gone."""
        self.subscriptions.close()
        await self.calls.close()


@dataclass(frozen=True)
class Learned:
    """Hold what was learned of one backend, and what was made of its schemas. Its successive services share it."""

    gate: BackendGate
    param_structures: ParamStructures = field(default_factory=ParamStructures)
    broken_output_schemas: BrokenOutputSchemas = field(default_factory=BrokenOutputSchemas)
    validators: ValidatorCache = field(default_factory=ValidatorCache)
    search: ToolSearch = field(default_factory=ToolSearch)


class ServiceAuth:
    """Hold the issuers of one service, a policy for each, its API keys, and what checks both. ``before`` is of its
    predecessor: where settings and files are equal, its issuers are shared, with their keys, and its verified tokens
    where policies and API keys are equal, too. ``authenticator`` is None where callers show nothing."""

    def __init__(
        self, settings: ResourceSettings, files: ServiceFiles, store: Store, before: ServiceAuth | None
    ) -> None:
        auth, endpoint = settings.auth, None
        if isinstance(settings, ServiceSettings):
            endpoint = settings.backend.credentials.token_endpoint
        self._made_of = auth, endpoint, files.of("auth.issuers")
        alike = before if before is not None and before._made_of == self._made_of else None
        self.issuers: Issuers = alike.issuers.shared() if alike else Issuers(auth.active_issuers, endpoint)
        self.policies: tuple[IssuerPolicy, ...] = _policies(settings, self.issuers)
        known = before.api_keys if before else KeyRing()
        self.api_keys: KeyRing = known.successor(files.keys, auth.scopes.implies)
        self.verifier: TokenVerifier = self.issuers.verifier(self.policies, self.api_keys)
        self.authenticator: Authenticator | None = None
        if alike is not None and (alike.policies, alike.api_keys) == (self.policies, self.api_keys):
            self.authenticator = alike.authenticator
        elif auth.traits.has_keys:
            proofs = None if auth.dpop == "off" else ProofChecker(settings.server.origin, store)
            turns_of = self.verifier.turns_of
            self.authenticator = Authenticator(self.verifier, dpop=auth.dpop, proofs=proofs, turns_of=turns_of)


def _policies(settings: ResourceSettings, issuers: Issuers) -> tuple[IssuerPolicy, ...]:
    implies, extra = settings.auth.scopes.implies, True
    for service in settings.services:
        modes = credential_modes(service)
        # The backend gets callers' tokens: one that is also for a third service could be used there by the backend.
        forwards = modes.calls.uses_callers_token or modes.listing.uses_callers_token
        extra = extra and not (forwards and service.backend.credentials.reject_extra_audiences)
    told = tuple(filter(None, (service.backend.told_claims for service in settings.services)))
    return tuple(
        issuer_policy(keys.issuer, settings.resource, extra_audiences=extra, implies=implies, told_claims=told)
        for keys in issuers.keys.values()
    )
