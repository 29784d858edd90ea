"""Verify a raw token, by its signature or by asking its issuer. The cheapest checks come first."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from gateway.auth import compact
from gateway.auth.claims import LEEWAY, IssuerPolicy, check_token_kind, principal_of
from gateway.auth.compact import InvalidToken
from gateway.auth.jwks import IssuerKeys
from gateway.auth.keys import ALGORITHMS
from gateway.model import Principal


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """Hold a principal, the thumbprint of the key that its token is bound to (RFC 9449 §6), for how many seconds this
    may be cached, and whether the keys are still the same."""

    principal: Principal
    bound_key: str | None
    keep_for: float
    still_valid: Callable[[], bool]


class Verifier(Protocol):
    """Verify tokens. ``clock``\\ s of implementations are wall-clock seconds."""

    async def verify_token(self, raw: str) -> VerifiedToken:
        """Return the principal. Raises :class:`InvalidToken`, :class:`~gateway.auth.compact.Undecidable`."""
        ...


class SignatureVerifier:
    """Verify tokens that carry their claims, with their issuer's keys (RFC 9068 §4). ``keep`` is in seconds."""

    def __init__(
        self,
        issuers: Sequence[tuple[IssuerPolicy, IssuerKeys]],
        keep: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {policy.issuer.issuer: (policy, keys) for policy, keys in issuers}
        # Some issuers leave iss out; then the token can only be of the one issuer that is configured.
        alone = len(issuers) == 1 and "iss" not in issuers[0][0].required_claims
        self._only_issuer = issuers[0] if alone else None
        self._keep = keep
        self._clock = clock

    async def verify_token(self, raw: str) -> VerifiedToken:
        token = compact.parse_compact(raw)
        policy, keys = self._issuer_of(token.claims)
        if token.alg not in ALGORITHMS:
            raise InvalidToken("its algorithm is not accepted")
        kid, typ = token.kid, token.typ
        check_token_kind(policy, typ, token.claims)  # before the keys: no other kind of token causes a fetch
        candidates = await keys.candidates(kid, token.alg)
        if not any(key.verifies(token.signing_input, token.signature) for key in candidates):
            raise InvalidToken("its signature is wrong")
        now = self._clock()
        principal = principal_of(policy, token.claims, raw, now)
        keep = min(self._keep, principal.expires + LEEWAY - now)
        return VerifiedToken(principal, key_binding(token.claims), keep, _keys_unchanged(keys, keys.generation))

    def _issuer_of(self, claims: Mapping[str, Any]) -> tuple[IssuerPolicy, IssuerKeys]:
        name = claims.get("iss")
        found = self._issuers.get(name) if isinstance(name, str) else None
        if found is None and "iss" not in claims:
            found = self._only_issuer
        if found is None:
            raise InvalidToken("its issuer is not one of auth.issuers")
        return found


@lru_cache(64)
def _keys_unchanged(keys: IssuerKeys, generation: int) -> Callable[[], bool]:
    """Return one function for all tokens that the same keys verified: they are many."""
    return lambda: keys.generation == generation


def key_binding(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint in ``cnf`` (RFC 7800), or None. Raises :class:`InvalidToken` for other bindings."""
    if "cnf" not in claims:
        return None
    confirmation = claims["cnf"]
    if not isinstance(confirmation, Mapping) or set(confirmation) != {"jkt"}:
        raise InvalidToken("it is bound in a way that is not supported (only cnf.jkt is)")
    thumbprint = confirmation["jkt"]
    if not isinstance(thumbprint, str) or not thumbprint:
        raise InvalidToken("its cnf is malformed")
    return thumbprint
