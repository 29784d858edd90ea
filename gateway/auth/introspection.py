"""Asking the issuer about tokens that cannot be read (RFC 7662).

A token is shown to the configured endpoint of its issuer alone. What comes back is held to the same rules as signed
claims. A revoked token is noticed once the kept answer has run out.

Anybody can make up tokens that have to be asked about, so the issuer is asked about so many at once and in a second.
Who comes beyond that is told to come again (503), never that the token is bad.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gateway.auth.claims import IssuerPolicy, check_fixed_claims, principal_of
from gateway.auth.jwks import TIMEOUT, FetchFailed, IssuerKeys
from gateway.auth.oauth_client import OAuthClient
from gateway.auth.refusals import InvalidToken, Undecidable
from gateway.auth.verifier import VerifiedToken, key_binding
from gateway.outbound import Outbound, OutboundError

MAX_UNDER_WAY: Final = 16
"""Tokens that one issuer is asked about at the same time."""
MAX_PER_SECOND: Final = 50
"""Tokens that one issuer is asked about within a second."""
GOOGLE: Final = "https://oauth2.googleapis.com/tokeninfo"
_RETRY_AFTER: Final = 5
_RETRY_WHEN_BUSY: Final = 1
_ACCESS_TYPES: Final = ("bearer", "dpop", "access_token")
_OTHER_USE: Final = re.compile(r"refresh|^id(?:[_-]?token)?$|authorization_code", re.IGNORECASE)


class IntrospectionVerifier:
    """``keys`` knows the issuer's metadata; ``clock`` is wall-clock seconds, ``monotonic`` seconds that never jump."""

    def __init__(
        self,
        policy: IssuerPolicy,
        keys: IssuerKeys,
        outbound: Outbound,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._under_way = 0
        self._request_times: deque[float] = deque(maxlen=MAX_PER_SECOND)
        self._is_google = policy.preset.name == "google"
        self._client = OAuthClient(outbound, policy.issuer.introspection, self.endpoint, TIMEOUT)

    async def verify_token(self, raw: str) -> VerifiedToken:
        """Raises :class:`InvalidToken`, :class:`Undecidable`."""
        with self._within_limits():
            claims = await self._introspect(raw)
        if not self._is_google:
            _check_token_use(claims)
        check_fixed_claims(self._policy, claims)
        now = self._clock()
        principal = principal_of(self._policy, claims, raw, now)
        keep = min(self._policy.issuer.introspection.cache, principal.expires - now)
        return VerifiedToken(principal, key_binding(claims), keep, _always_valid)

    async def endpoint(self) -> str:
        """Where tokens are asked about. Raises :class:`FetchFailed`."""
        configured = self._policy.issuer.introspection.endpoint
        if configured is not None:
            return configured
        if self._is_google:
            return GOOGLE
        found = (await self._keys.get_metadata()).introspection_endpoint
        if found is None:
            raise FetchFailed("its metadata have no introspection_endpoint; set auth.issuers.introspection.endpoint")
        return found

    @contextmanager
    def _within_limits(self) -> Iterator[None]:
        """Counts a question while it is under way, and for a second. Raises :class:`Undecidable` beyond the bounds."""
        now = self._monotonic()
        within_a_second = len(self._request_times) == MAX_PER_SECOND and now - self._request_times[0] < 1
        if self._under_way == MAX_UNDER_WAY or within_a_second:
            reason = f"{self._policy.issuer.issuer}: too many tokens at once to ask about"
            raise Undecidable(reason, _RETRY_WHEN_BUSY)
        self._request_times.append(now)
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def _introspect(self, raw: str) -> dict[str, Any]:
        form = {"access_token": raw} if self._is_google else {"token": raw, "token_type_hint": "access_token"}
        try:
            answer = await self._client.post(form)
        except (FetchFailed, OutboundError) as error:
            raise self._undecidable(str(error)) from None
        if self._is_google and answer.status == 400:
            raise InvalidToken("the issuer does not know it, or not any more")
        if answer.status != 200:
            raise self._undecidable(f"introspection: HTTP {answer.status}")
        claims = answer.members
        if claims is None:
            raise self._undecidable("introspection: no JSON object")
        if self._is_google:
            return _with_numeric_times(claims)
        if claims.get("active") is not True:
            raise InvalidToken("the issuer does not know it, or not any more")
        return claims

    def _undecidable(self, reason: str) -> Undecidable:
        return Undecidable(f"{self._policy.issuer.issuer}: {reason}", _RETRY_AFTER)


def _with_numeric_times(claims: dict[str, Any]) -> dict[str, Any]:
    """Google writes times as strings."""
    exp = claims.get("exp")
    return {**claims, "exp": int(exp)} if isinstance(exp, str) and exp.isdecimal() and len(exp) < 16 else claims


def _check_token_use(claims: Mapping[str, Any]) -> None:
    """That it is no other kind of token: to some issuers a refresh token is active too, for the same audience, and only
    these members tell it apart (token_use is Ory's). Raises :class:`InvalidToken`."""
    for name in ("token_use", "token_type"):
        use = claims.get(name)
        if isinstance(use, str) and _OTHER_USE.search(use):
            raise InvalidToken(f"{name} says that it is no access token")
    # Where the client stands in for the audience, nothing else tells an access token from a refresh token, whose
    # answer has neither aud nor token_type (node oidc-provider).
    if "aud" not in claims and str(claims.get("token_type")).lower() not in _ACCESS_TYPES:
        raise InvalidToken("neither aud nor token_type says that it is an access token")


def _always_valid() -> bool:
    return True
