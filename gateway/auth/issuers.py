"""Keep what a service knows of its issuers: their keys, HTTP clients to reach them, and verifiers of their tokens."""

import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote_plus, urlencode

from gateway import jsonrpc
from gateway.auth import compact
from gateway.auth.addresses import reach_of_issuer
from gateway.auth.api_keys import KeyRing, is_key
from gateway.auth.asking import IssuerTurns
from gateway.auth.claims import IssuerPolicy, check_fixed_claims, principal_of
from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.jwks import HEADERS, TIMEOUT, FetchFailed, IssuerKeys
from gateway.auth.verifier import SignatureVerifier, VerifiedToken, Verifier, key_binding
from gateway.concurrency.background import Background
from gateway.http_client.response import OutboundError
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles
from gateway.settings import Credentials, Issuer
from gateway.settings.auth import ClientSecret
from gateway.telemetry.record import INTROSPECTION, RECORD

MAX_BYTES: Final = 64 * 1024
"""The longest answer to a form that is read."""
_FORM_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", **HEADERS}
GOOGLE: Final = "https://oauth2.googleapis.com/tokeninfo"
_RETRY_AFTER: Final = 5
_ACCESS_TYPES: Final = ("bearer", "dpop", "access_token")
_OTHER_USE: Final = re.compile(r"refresh|^id(?:[_-]?token)?$|authorization_code", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Post forms to an endpoint of an authorization server, with the gateway as the client (RFC 6749 §2.3.1).
    ``endpoint`` returns its URL, ``timeout`` is in seconds."""

    outbound: Outbound
    client: ClientSecret
    endpoint: Callable[[], Awaitable[str]]
    timeout: float

    async def post(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any] | None]:
        """Return status and members of the answer, None without an object. Raises :class:`OutboundError`."""
        url, body = await self.endpoint(), urlencode(form).encode()
        headers = {**_FORM_HEADERS, **_basic_authorization(self.client)}
        answer = await self.outbound.request("POST", url, body, headers, timeout=self.timeout, max_bytes=MAX_BYTES)
        try:
            members = jsonrpc.decode(answer.body)
        except ValueError:
            members = None
        return answer.status, members if isinstance(members, dict) else None


def _basic_authorization(client: ClientSecret) -> dict[str, str]:
    """Return the header of client_secret_basic (RFC 6749 §2.3.1): form-encoded, then base64; none without client_id."""
    if client.client_id is None:
        return {}
    secret = client.client_secret.get_secret_value() if client.client_secret else ""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"
    return {"Authorization": "Basic " + b64encode(pair.encode()).decode()}


@dataclass(eq=False)
class IntrospectionVerifier:
    """Verify opaque tokens by asking their one issuer (RFC 7662), in ``turns``; ``keys`` has its metadata. ``clock`` is
    wall-clock seconds."""

    policy: IssuerPolicy
    keys: IssuerKeys
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.turns: IssuerTurns = self.keys.turns
        self._is_google = self.policy.preset.name == "google"
        self._client = OAuthClient(self.keys.outbound, self.policy.issuer.introspection, self.endpoint, TIMEOUT)

    async def verify_token(self, raw: str) -> VerifiedToken:
        """Return what the issuer says of a token, whose turn it is. Raises :class:`InvalidToken`,
        :class:`Undecidable`."""
        claims = await self._introspect(raw)
        if not self._is_google:
            _check_token_use(claims)
        check_fixed_claims(self.policy, claims)
        now = self.clock()
        principal = principal_of(self.policy, claims, raw, now)
        keep = min(self.policy.issuer.introspection.cache, principal.expires - now)
        return VerifiedToken(principal, key_binding(claims), keep, lambda: True)

    async def endpoint(self) -> str:
        """Return the URL of the introspection endpoint. Raises :class:`FetchFailed`."""
        configured = self.policy.issuer.metadata.introspection_endpoint
        if configured is not None:
            return configured
        if self._is_google:
            return GOOGLE
        found = (await self.keys.get_metadata()).introspection_endpoint
        if found is None:
            raise FetchFailed("its metadata have no introspection_endpoint; set auth.issuers.metadata")
        return found

    def is_issuer_of(self, raw: str) -> bool:
        """Return whether a JWT names this issuer. Raises :class:`InvalidToken`."""
        return bool(compact.parse_compact(raw).claims.get("iss") == self.policy.issuer.issuer)

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
        self.keys.problem.set("")
        if self._is_google:  # which sends exp as a string
            exp = claims.get("exp")
            return {**claims, "exp": int(exp)} if isinstance(exp, str) and exp.isdecimal() and len(exp) < 16 else claims
        if claims.get("active") is not True:
            raise InvalidToken("the issuer says that it is not active")
        return claims

    def _undecidable(self, reason: str) -> Undecidable:
        reason = f"{self.policy.issuer.issuer}: {reason}"
        self.keys.problem.set(reason)
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


@dataclass(frozen=True, slots=True)
class TokenVerifier:
    """Choose by the token's outer form: an API key is looked up, the signature of a JWT is verified, the issuer of any
    other is asked."""

    api_keys: KeyRing
    signature: SignatureVerifier | None
    introspection: IntrospectionVerifier | None

    async def verify_token(self, raw: str) -> VerifiedToken:
        return self.api_keys.verify_key(raw) if is_key(raw) else await self._verifier_of(raw).verify_token(raw)

    def turns_of(self, raw: str) -> IssuerTurns | None:
        """Return the turns in which the issuer of a token is asked about it, None where nobody is asked."""
        if self.introspection is None or is_key(raw):
            return None
        with suppress(InvalidToken):
            if self._verifier_of(raw) is self.introspection:
                return self.introspection.turns
        return None

    def _verifier_of(self, raw: str) -> Verifier:
        verifier: Verifier | None = self.introspection
        if not compact.has_jwt_form(raw):
            if len(raw) > compact.MAX_BYTES:
                raise InvalidToken("longer than 8 KiB")
        elif self.introspection is None or not self.introspection.is_issuer_of(raw):
            verifier = self.signature
        if verifier is None:
            raise InvalidToken("not the kind of token that is accepted here")
        return verifier


class Issuers:
    """Hold the keys of each issuer, and an HTTP client for token endpoints: that of the first issuer, where there is
    one. A service and its successor may share this. Raises :class:`OSError` where a CA file cannot be used."""

    def __init__(self, issuers: Sequence[Issuer], token_endpoint: str | None) -> None:
        self.keys: dict[str, IssuerKeys] = {}
        for issuer in issuers:
            tls = TlsFiles(issuer.ca_file, ca_knob="auth.issuers.ca_file")
            reach = reach_of_issuer(issuer, GOOGLE, token_endpoint)
            self.keys[issuer.issuer] = IssuerKeys(issuer, Outbound(connections=20, tls=tls, reach=reach))
        self._outbounds = [keys.outbound for keys in self.keys.values()] or [Outbound(connections=20)]
        self.outbound = self._outbounds[0]
        self.background = Background()
        self._users = 1

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

    def verifier(self, policies: Iterable[IssuerPolicy], api_keys: KeyRing) -> TokenVerifier:
        """Return the verifier of API keys, and of tokens by these policies, of which each issuer has one."""
        pairs = [(policy, self.keys[policy.issuer.issuer]) for policy in policies]
        signed = [pair for pair in pairs if not pair[0].issuer.introspects]
        # At most one, which the settings check: an opaque token does not say whose it is.
        asked = [IntrospectionVerifier(*pair) for pair in pairs if pair[0].issuer.introspects]
        return TokenVerifier(api_keys, SignatureVerifier(signed) if signed else None, asked[0] if asked else None)

    def published(self) -> list[str]:
        """Return the issuers' names, each as its own metadata has it where these were read."""
        return [keys.published for keys in self.keys.values()]

    async def token_endpoint(self, settings: Credentials) -> str:
        """Return the URL of the token endpoint: the configured one, else the first issuer's. Raises
        :class:`FetchFailed`."""
        if settings.token_endpoint is not None:
            return settings.token_endpoint
        if not self.keys:
            raise FetchFailed("with auth.mode: off no issuer names a token endpoint; set token_endpoint")
        endpoint = (await next(iter(self.keys.values())).get_metadata()).token_endpoint
        if endpoint is None:
            raise FetchFailed("the issuer's metadata have no token_endpoint; set token_endpoint")
        return endpoint

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
        for outbound in self._outbounds:
            await outbound.close()

    def _signing(self) -> list[IssuerKeys]:
        """Return the keys of the issuers whose tokens are verified by signature."""
        return [keys for keys in self.keys.values() if not keys.issuer.introspects]
