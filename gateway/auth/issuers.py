"""Keep what a service knows of its issuers: their keys, HTTP clients to reach them, and verifiers of their tokens."""

import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from gateway.auth.addresses import reach_of_issuer
from gateway.auth.claims import IssuerPolicy, check_fixed_claims, principal_of
from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.jwks import TIMEOUT, FetchFailed, IssuerKeys
from gateway.auth.oauth_client import OAuthClient
from gateway.auth.verifier import SignatureVerifier, VerifiedToken, Verifiers, key_binding
from gateway.concurrency.background import Background
from gateway.http_client.response import OutboundError
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles
from gateway.settings import Credentials, Issuer
from gateway.telemetry.record import INTROSPECTION, RECORD

# Verify opaque tokens by asking their issuer (RFC 7662). Anybody can invent some, so the requests are bounded: beyond
# the bounds the answer is 503 with Retry-After, never that the token is bad.
MAX_UNDER_WAY: Final = 16
"""Requests to one issuer at the same time."""
MAX_PER_SECOND: Final = 50
"""Requests to one issuer within a second."""
GOOGLE: Final = "https://oauth2.googleapis.com/tokeninfo"
_RETRY_AFTER: Final = 5
_RETRY_WHEN_BUSY: Final = 1
_ACCESS_TYPES: Final = ("bearer", "dpop", "access_token")
_OTHER_USE: Final = re.compile(r"refresh|^id(?:[_-]?token)?$|authorization_code", re.IGNORECASE)


class IntrospectionVerifier:
    """Verify tokens of one issuer; ``keys`` has its metadata. ``clock`` is wall-clock seconds."""

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
        """Return what the issuer says of a token. Raises :class:`InvalidToken`, :class:`Undecidable`."""
        with self._within_limits():
            claims = await self._introspect(raw)
        if not self._is_google:
            _check_token_use(claims)
        check_fixed_claims(self._policy, claims)
        now = self._clock()
        principal = principal_of(self._policy, claims, raw, now)
        keep = min(self._policy.issuer.introspection.cache, principal.expires - now)
        return VerifiedToken(principal, key_binding(claims), keep, lambda: True)

    async def endpoint(self) -> str:
        """Return the URL of the introspection endpoint. Raises :class:`FetchFailed`."""
        configured = self._policy.issuer.metadata.introspection_endpoint
        if configured is not None:
            return configured
        if self._is_google:
            return GOOGLE
        found = (await self._keys.get_metadata()).introspection_endpoint
        if found is None:
            raise FetchFailed("its metadata have no introspection_endpoint; set auth.issuers.metadata")
        return found

    @contextmanager
    def _within_limits(self) -> Iterator[None]:
        """Count a request while it is under way, and for a second. Raises :class:`Undecidable` beyond the bounds."""
        now = self._monotonic()
        within_a_second = len(self._request_times) == MAX_PER_SECOND and now - self._request_times[0] < 1
        if self._under_way == MAX_UNDER_WAY or within_a_second:
            reason = f"{self._policy.issuer.issuer}: too many introspection requests at once"
            raise Undecidable(reason, _RETRY_WHEN_BUSY)
        self._request_times.append(now)
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def _introspect(self, raw: str) -> dict[str, Any]:
        # Google's tokeninfo is older than RFC 7662: other names, no active, and status 400 for a bad token.
        form = {"access_token": raw} if self._is_google else {"token": raw, "token_type_hint": "access_token"}
        began, failed = time.perf_counter(), "unavailable"
        try:
            status, claims = await self._client.post(form)
            failed = "" if status < 500 else str(status)
        except (FetchFailed, OutboundError) as error:
            raise self._undecidable(str(error)) from None
        finally:
            RECORD.get().note_work(INTROSPECTION, began, failed)
        if self._is_google and status == 400:
            raise InvalidToken("the issuer says that it is not active")
        if status != 200:
            raise self._undecidable(f"introspection: HTTP {status}")
        if claims is None:
            raise self._undecidable("introspection: the answer is not a JSON object")
        self._keys.problem.set("")
        if self._is_google:  # which sends exp as a string
            exp = claims.get("exp")
            return {**claims, "exp": int(exp)} if isinstance(exp, str) and exp.isdecimal() and len(exp) < 16 else claims
        if claims.get("active") is not True:
            raise InvalidToken("the issuer says that it is not active")
        return claims

    def _undecidable(self, reason: str) -> Undecidable:
        reason = f"{self._policy.issuer.issuer}: {reason}"
        self._keys.problem.set(reason)
        return Undecidable(reason, _RETRY_AFTER)


def _check_token_use(claims: Mapping[str, Any]) -> None:
    """Raise :class:`InvalidToken` unless it is an access token. To some issuers a refresh token is active too, for the
    same audience, and only these members tell it apart (token_use is Ory's)."""
    for name in ("token_use", "token_type"):
        use = claims.get(name)
        if isinstance(use, str) and _OTHER_USE.search(use):
            raise InvalidToken(f"{name} says that it is not an access token")
    # Where the client is checked in place of the audience, only token_type shows that it is not a refresh token, whose
    # answer has neither aud nor token_type (node oidc-provider).
    if "aud" not in claims and str(claims.get("token_type")).lower() not in _ACCESS_TYPES:
        raise InvalidToken("neither aud nor token_type says that it is an access token")


class Issuers:
    """Hold the keys and the HTTP client of each issuer; without issuers, one client for ``token_endpoint``. A service
    and its successor may share this. Raises :class:`OSError` where a CA file cannot be used."""

    def __init__(self, issuers: Sequence[Issuer], token_endpoint: str | None) -> None:
        self.outbounds: dict[str, Outbound] = {}
        for issuer in issuers:
            tls = TlsFiles(issuer.ca_file, ca_knob="auth.issuers.ca_file")
            reach = reach_of_issuer(issuer, GOOGLE, token_endpoint)
            self.outbounds[issuer.issuer] = Outbound(connections=20, tls=tls, reach=reach)
        self.keys = {issuer.issuer: IssuerKeys(issuer, self.outbounds[issuer.issuer]) for issuer in issuers}
        self.background = Background()
        self._users = 1
        if not issuers:
            self.outbounds[""] = Outbound(connections=20)

    def start(self) -> None:
        """Fetch keys and keep them fresh, once for all services that share them."""
        if not any(self.background.describe()):
            for keys in self._signing():
                self.background.start(f"keys of {keys.issuer.issuer}", keys.refresh_forever)

    def unready(self) -> str | None:
        """Return why tokens cannot be verified, or None. One issuer of several may lack keys, once tried."""
        missing = [keys for keys in self._signing() if keys.keys is None]
        untried = not all(keys.first_attempt_over.is_set() for keys in missing)
        if missing and (untried or len(missing) == len(self.keys)):
            return f"no keys of {missing[0].issuer.issuer}"
        return None

    def verifier(self, policies: Iterable[IssuerPolicy]) -> Verifiers:
        """Return the verifier of tokens by these policies, of which each issuer has one."""
        pairs = [(policy, self.keys[policy.issuer.issuer]) for policy in policies]
        signed = [pair for pair in pairs if not pair[0].issuer.introspects]
        # At most one, which the settings check: an opaque token does not say whose it is.
        asked = [pair for pair in pairs if pair[0].issuer.introspects]
        introspection = IntrospectionVerifier(*asked[0], self.outbounds[asked[0][0].issuer.issuer]) if asked else None
        names = frozenset(policy.issuer.issuer for policy, _ in asked)
        return Verifiers(SignatureVerifier(signed) if signed else None, introspection, names)

    def published(self) -> list[str]:
        """Return the issuers' names, each as its own metadata has it where these were read."""
        return [keys.published for keys in self.keys.values()]

    def token_endpoint(self, settings: Credentials) -> Callable[[], Awaitable[str]]:
        """Return a function for the URL of the token endpoint: the configured one, else the first issuer's."""

        async def endpoint_url() -> str:
            if settings.token_endpoint is not None:
                return settings.token_endpoint
            if not self.keys:
                raise FetchFailed("with auth.mode: off no issuer names a token endpoint; set token_endpoint")
            endpoint = (await next(iter(self.keys.values())).get_metadata()).token_endpoint
            if endpoint is None:
                raise FetchFailed("the issuer's metadata have no token_endpoint; set token_endpoint")
            return endpoint

        return endpoint_url

    def outbound(self) -> Outbound:
        return next(iter(self.outbounds.values()))

    def shared(self) -> Self:
        """Return this for one more service, which has to close it, too."""
        self._users += 1
        return self

    async def close(self) -> None:
        """Close everything, once all services that share this have closed it."""
        self._users -= 1
        if self._users:
            return
        await self.background.stop()
        for outbound in self.outbounds.values():
            await outbound.close()

    def _signing(self) -> list[IssuerKeys]:
        """Return the keys of the issuers whose tokens are verified by signature."""
        return [keys for keys in self.keys.values() if not keys.issuer.introspects]
