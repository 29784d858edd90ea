"""Build what decides about the tokens of one service: its issuers, a policy for each, and what checks tokens."""

from __future__ import annotations

from gateway.auth.authenticator import Authenticator
from gateway.auth.claims import IssuerPolicy, issuer_policy
from gateway.auth.dpop import ProofChecker
from gateway.auth.issuers import Issuers
from gateway.config.service_files import ServiceFiles
from gateway.credentials import credential_modes
from gateway.settings import ServiceSettings
from gateway.store import Store


class ServiceAuth:
    """Hold the issuers, policies and authenticator of one service. Of the service ``before`` it, those are taken that
    derive from equal settings, with their keys and verified tokens."""

    def __init__(
        self, settings: ServiceSettings, files: ServiceFiles, store: Store, before: ServiceAuth | None
    ) -> None:
        self._settings = settings
        self._files = files
        self._store = store
        self._before = before
        self.issuers = self._issuers()
        self.policies = self._policies()
        self.authenticator = self._authenticator()
        self._before = None  # or each would keep all that were before it

    def _issuers(self) -> Issuers:
        before, settings = self._before, self._settings
        endpoint = settings.backend.credentials.token_endpoint
        if (
            before is not None
            and before._settings.auth == settings.auth
            and before._files.of("auth") == self._files.of("auth")
            and before._settings.backend.credentials.token_endpoint == endpoint
        ):
            return before.issuers
        return Issuers(settings.auth.active_issuers, endpoint)

    def _policies(self) -> tuple[IssuerPolicy, ...]:
        settings, modes = self._settings, credential_modes(self._settings)
        # The backend gets callers' tokens: one that is also for a third service could be used there by the backend.
        forwards = modes.calls.uses_callers_token or modes.listing.uses_callers_token
        extra = not (forwards and settings.backend.credentials.reject_extra_audiences)
        implies = settings.auth.scopes.implies
        return tuple(
            issuer_policy(keys.issuer, settings.resource, extra_audiences=extra, implies=implies)
            for keys in self.issuers.keys.values()
        )

    def _authenticator(self) -> Authenticator | None:
        """Return what checks issuers' tokens, None where callers show none: a mode that authenticates otherwise then
        refuses all callers. Its cache is kept where the rules are equal."""
        before, auth = self._before, self._settings.auth
        if not auth.traits.issuer_tokens:
            return None
        if before is not None and before.issuers is self.issuers and before.policies == self.policies:
            return before.authenticator
        proofs = None if auth.dpop == "off" else ProofChecker(self._settings.server.origin, self._store)
        verifier = self.issuers.verifier(self.policies)
        return Authenticator(verifier, dpop=auth.dpop, proofs=proofs)
