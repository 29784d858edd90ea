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
from gateway.auth.claims import LEEWAY, Policy, check_kind, principal_of
from gateway.auth.jwks import IssuerKeys
from gateway.auth.keys import ALGORITHMS
from gateway.auth.refusals import InvalidToken
from gateway.model import Principal


@dataclass(frozen=True, slots=True)
class Verified:
    """A principal, the thumbprint of the key that its token is bound to (RFC 9449 §6), how many seconds the answer may
    be kept, and whether what it rests on still holds."""

    principal: Principal
    bound_to: str | None
    keep: float
    holds: Callable[[], bool]


class Verifier(Protocol):
    """Tells whether a token is good. ``clock``\\ s of implementations are wall-clock seconds."""

    async def verify(self, raw: str) -> Verified:
        """Raises :class:`InvalidToken`, and :class:`~gateway.auth.refusals.Undecidable` where nobody can tell now."""
        ...


class SignatureVerifier:
    """Tokens that carry their claims, by the keys of their issuer (RFC 9068 §4)."""

    def __init__(
        self,
        issuers: Sequence[tuple[Policy, IssuerKeys]],
        keep: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {policy.issuer.issuer: (policy, keys) for policy, keys in issuers}
        # Some issuers leave iss out; only one who is alone can be meant then.
        alone = len(issuers) == 1 and "iss" not in issuers[0][0].required
        self._unnamed = issuers[0] if alone else None
        self._keep = keep
        self._clock = clock

    async def verify(self, raw: str) -> Verified:
        token = compact.read(raw)
        policy, keys = self._issuer_of(token.claims)
        if token.alg not in ALGORITHMS:
            raise InvalidToken("its algorithm is not accepted")
        kid, typ = token.kid, token.typ
        check_kind(policy, typ, token.claims)
        candidates = await keys.candidates(kid, token.alg)
        if not any(key.verifies(token.signed, token.signature) for key in candidates):
            raise InvalidToken("its signature is wrong")
        now = self._clock()
        principal = principal_of(policy, token.claims, raw, now)
        keep = min(self._keep, principal.expires + LEEWAY - now)
        return Verified(principal, binding_of(token.claims), keep, _unchanged(keys, keys.generation))

    def _issuer_of(self, claims: Mapping[str, Any]) -> tuple[Policy, IssuerKeys]:
        name = claims.get("iss")
        found = self._issuers.get(name) if isinstance(name, str) else None
        if found is None and "iss" not in claims:
            found = self._unnamed
        if found is None:
            raise InvalidToken("its issuer is not one of auth.issuers")
        return found


@lru_cache(64)
def _unchanged(keys: IssuerKeys, generation: int) -> Callable[[], bool]:
    """One for all the tokens that the same keys vouch for: they are many."""
    return lambda: keys.generation == generation


def binding_of(claims: Mapping[str, Any]) -> str | None:
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

    def __init__(self, signed: Verifier | None, asked: Verifier | None, asks_about: frozenset[str]) -> None:
        self._signed = signed
        self._asked = asked
        self._asks_about = asks_about

    async def verify(self, raw: str) -> Verified:
        if compact.looks_signed(raw):
            if self._asked is not None and self._is_asked_about(compact.read(raw).claims.get("iss")):
                return await self._asked.verify(raw)
            if self._signed is not None:
                return await self._signed.verify(raw)
        elif self._asked is not None:
            if len(raw) > compact.MAX_BYTES:
                raise InvalidToken("longer than 8 KiB")
            return await self._asked.verify(raw)
        raise InvalidToken("not the kind of token that is accepted here")

    def _is_asked_about(self, issuer: Any) -> bool:
        return isinstance(issuer, str) and issuer in self._asks_about
