"""Hold what outlasts one service object: what belongs to its path, and what its successor inherits on a reload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.auth.api_keys import KeyRing
from gateway.auth.authenticator import Authenticator
from gateway.auth.claims import IssuerPolicy, issuer_policy
from gateway.auth.dpop import ProofChecker
from gateway.auth.issuers import Issuers
from gateway.auth.verifier import Verifier
from gateway.backend.admission import BackendGate
from gateway.backend.params import ParamStructures
from gateway.config.service_files import ServiceFiles
from gateway.credentials import credential_modes
from gateway.discovery.discovery import CatalogSource
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
    cancel by id, and the questions to their users. ``held`` counts for the whole process."""

    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    streams: StreamLimit = field(default_factory=StreamLimit)
    concurrency: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    calls: RunningCalls = field(default_factory=RunningCalls)
    elicitations: PendingElicitations = field(default_factory=PendingElicitations)
    held: HeldBytes = field(default_factory=lambda: HeldBytes(_MAX_HELD))

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
    """Hold the issuers of one service, a policy for each, its API keys, and what checks both. ``before`` is of a
    service with equal settings of auth: its issuers are shared, with their keys, and its verified tokens where policies
    and API keys are equal. ``authenticator`` is None where callers show nothing."""

    def __init__(self, settings: ResourceSettings, api_keys: KeyRing, store: Store, before: ServiceAuth | None) -> None:
        auth, endpoint = settings.auth, None
        if isinstance(settings, ServiceSettings):
            endpoint = settings.backend.credentials.token_endpoint
        self.issuers: Issuers = before.issuers.shared() if before else Issuers(auth.active_issuers, endpoint)
        self.policies: tuple[IssuerPolicy, ...] = _policies(settings, self.issuers)
        self.api_keys = api_keys
        self.verifier: Verifier = self.issuers.verifier(self.policies, api_keys)
        self.authenticator: Authenticator | None = None
        if before is not None and (before.policies, before.api_keys) == (self.policies, self.api_keys):
            self.authenticator = before.authenticator
        elif auth.traits.has_keys:
            proofs = None if auth.dpop == "off" else ProofChecker(settings.server.origin, store)
            self.authenticator = Authenticator(self.verifier, dpop=auth.dpop, proofs=proofs)


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


@dataclass(frozen=True)
class Inherited:
    """Hold what a service takes over from its predecessor, which made this of both settings (:meth:`Resource.leave`).

    ``auth`` is None where the settings of auth differ, ``learned`` where the backend or its kinds of credential do:
    then ``discovery`` gives only the last digests, and ``gate`` its counters. ``same_names`` says that tools are listed
    in the same manner, ``same_callers`` that the same callers may have streams, with the same views. A late response
    may still quote one of ``secrets``.
    """

    auth: ServiceAuth | None = None
    api_keys: KeyRing = field(default_factory=KeyRing)
    learned: Learned | None = None
    gate: BackendGate | None = None
    dialect: str = "auto"
    secrets: tuple[str, ...] = ()
    discovery: CatalogSource | None = None
    same_catalogs: bool = False
    same_names: bool = False
    same_callers: bool = False


NOTHING: Final = Inherited()
"""What a first service inherits."""


@dataclass(frozen=True)
class BuildContext:
    """Hold what a service or a group is built with, beside its settings. ``secrets`` sign its texts, the first one new
    ones; ``progress`` is told each dialect that is tried."""

    files: ServiceFiles
    store: Store
    secrets: tuple[bytes, ...] = ()
    mount: Mount = field(default_factory=Mount)
    inherited: Inherited = NOTHING
    progress: Callable[[str], None] = lambda _: None
