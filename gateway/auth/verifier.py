"""From a raw token to a principal: one contract, by signature or by asking the issuer.

In the order of cost: the outer form, the header, the issuer, the key, the signature, and only then the claims.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from gateway.auth import compact
from gateway.auth.claims import LEEWAY, IssuerPolicy, check_token_kind, principal_of
from gateway.auth.jwks import IssuerKeys
from gateway.auth.keys import ALGORITHMS
from gateway.auth.refusals import InvalidToken
from gateway.model import Principal


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A principal, the thumbprint of the key that its token is bound to (RFC 9449 §6), how many seconds the answer may
    be kept, and whether what it rests on still holds."""

    principal: Principal
    bound_key: str | None
    keep_for: float
    still_valid: Callable[[], bool]


class Verifier(Protocol):
    """Tells whether a token is good. ``clock``\\ s of implementations are wall-clock seconds."""

    async def verify_token(self, raw: str) -> VerifiedToken:
        """Raises :class:`InvalidToken`, and :class:`~gateway.auth.refusals.Undecidable` where nobody can tell now."""
        ...


class SignatureVerifier:
    """Tokens that carry their claims, by the keys of their issuer (RFC 9068 §4)."""

    def __init__(
        self,
        issuers: Sequence[tuple[IssuerPolicy, IssuerKeys]],
        keep: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {policy.issuer.issuer: (policy, keys) for policy, keys in issuers}
        # Some issuers leave iss out; only one who is alone can be meant then.
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
        check_token_kind(policy, typ, token.claims)
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
    """One for all the tokens that the same keys vouch for: they are many."""
    return lambda: keys.generation == generation


def key_binding(claims: Mapping[str, Any]) -> str | None:
    """The thumbprint in ``cnf`` (RFC 7800). A binding of another kind cannot be checked here, so the token is refused.
    Raises :class:`InvalidToken`."""
    if "cnf" not in claims:
        return None
    confirmation = claims["cnf"]
    if not isinstance(confirmation, Mapping) or set(confirmation) != {"jkt"}:
        raise InvalidToken("it is bound in a way that is not supported")
    thumbprint = confirmation["jkt"]
    if not isinstance(thumbprint, str) or not thumbprint:
        raise InvalidToken("its cnf is malformed")
    return thumbprint


class Verifiers:
    """Chooses by the token's outer form: what looks signed is read, anything else is asked about."""

    def __init__(
        self, signature: Verifier | None, introspection: Verifier | None, introspected_issuers: frozenset[str]
    ) -> None:
        self._signature = signature
        self._introspection = introspection
        self._introspected_issuers = introspected_issuers

    async def verify_token(self, raw: str) -> VerifiedToken:
        if compact.has_jwt_form(raw):
            if self._introspection is not None and self._is_introspected(compact.parse_compact(raw).claims.get("iss")):
                return await self._introspection.verify_token(raw)
            if self._signature is not None:
                return await self._signature.verify_token(raw)
        elif self._introspection is not None:
            if len(raw) > compact.MAX_BYTES:
                raise InvalidToken("longer than 8 KiB")
            return await self._introspection.verify_token(raw)
        raise InvalidToken("not the kind of token that is accepted here")

    def _is_introspected(self, issuer: Any) -> bool:
        return isinstance(issuer, str) and issuer in self._introspected_issuers
