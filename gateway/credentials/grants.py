"""Request tokens for the backend from the token endpoint of an authorization server (RFC 6749 §3.2)."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from cachetools import TLRUCache

from gateway.auth.issuers import OAuthClient
from gateway.auth.jwks import FetchFailed
from gateway.backend.request_parts import RequestParts
from gateway.backend.transport import Transport
from gateway.concurrency.single_flight import SingleFlight
from gateway.errors import AuthUnavailable, BackendUnavailable
from gateway.http_client.response import AnswerTooLarge, OutboundError
from gateway.http_client.session import Outbound
from gateway.model import MessageForm
from gateway.settings import Credentials
from gateway.telemetry.record import RECORD

TIMEOUT: Final = 10.0
MAX_LIFETIME: Final = 86400.0
"""Seconds after which a token is requested again, even if the server says that it lives longer."""
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105

log = structlog.get_logger()


class GrantRefused(Exception):
    """Raised where the authorization server refuses. The text is its code (RFC 6749 §5.2), else the HTTP status."""


class CredentialUnavailable(BackendUnavailable):
    """Raised without a credential for the backend; ``reason`` is for the operator. ``busy``: nothing was decided."""

    def __init__(self, reason: str, *, busy: bool) -> None:
        super().__init__("The gateway has no credential for the backend")
        self.reason = reason
        self.busy = busy


@dataclass(frozen=True, slots=True)
class Grant:
    """Hold a bearer token, and for how many seconds it is valid; None where the server does not say."""

    token: str = field(repr=False)
    expires_in: float | None
    issued_type: str | None = None


@dataclass(frozen=True, slots=True)
class BackendEndpoint:
    """Hold how a login reaches the backend: the transport, the JSON-RPC endpoint, the form of messages."""

    transport: Transport
    url: str
    form: MessageForm


class TokenClient:
    """Request tokens at ``token_endpoint``, within ``timeout`` seconds. Modes that ask the backend use ``backend``."""

    def __init__(
        self,
        outbound: Outbound,
        settings: Credentials,
        token_endpoint: Callable[[], Awaitable[str]],
        backend: BackendEndpoint | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.settings = settings
        self.backend = backend
        self._client = OAuthClient(outbound, settings, token_endpoint, timeout)

    async def request_token(self, form: Mapping[str, str]) -> Grant:
        """Return the token that the server issues for a form. Raises :class:`GrantRefused`, ``AuthUnavailable``, and
        ``BackendUnavailable`` for an unusable answer."""
        target = {"audience": self.settings.audience, "resource": self.settings.resource, "scope": self.settings.scope}
        began, failed = time.perf_counter(), "unavailable"
        try:
            status, members = await self._client.post(
                {**form, **{name: value for name, value in target.items() if value}}
            )
            failed = "" if status == 200 else str(status)
        except AnswerTooLarge as error:
            raise credential_unavailable(f"the token endpoint's answer is {error}") from None
        except (OutboundError, FetchFailed) as error:
            raise _unavailable(str(error)) from None
        finally:
            RECORD.get().note_work("request token", began, failed)
        if status >= 500 or status == 429:
            raise _unavailable(f"HTTP {status}")
        if members is None:
            raise credential_unavailable("the token endpoint does not answer with a JSON object")
        if status != 200:
            error_word = members.get("error")
            raise GrantRefused(error_word if isinstance(error_word, str) else f"HTTP {status}")
        return _grant_of(members)


def _grant_of(members: Mapping[str, Any]) -> Grant:
    token, token_type = members.get("access_token"), members.get("token_type")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token or " " in token:
        raise credential_unavailable("the token endpoint returns no access_token that fits in a header")
    if not isinstance(token_type, str) or token_type.lower() != "bearer":
        raise credential_unavailable("the token endpoint returns a token whose token_type is not Bearer")
    lifetime = members.get("expires_in")
    expires_in = None
    if isinstance(lifetime, int | float) and not isinstance(lifetime, bool):
        expires_in = float(min(max(lifetime, 0), MAX_LIFETIME))
    issued_type = members.get("issued_token_type")
    return Grant(token, expires_in, issued_type if isinstance(issued_type, str) else None)


def credential_unavailable(reason: str, *, busy: bool = False) -> CredentialUnavailable:
    """Return the error for a failure that only the operator can fix, and log its reason."""
    log.error("no token for the backend", reason=reason)
    return CredentialUnavailable(reason, busy=busy)


def _unavailable(reason: str) -> AuthUnavailable:
    log.warning("the token endpoint does not answer", reason=reason)
    return AuthUnavailable("The authorization server does not answer at the moment", retry_after=5)


# A token is kept as the parts of a request that carry it: the forms in which a result may quote it are then found out
# once for each token and not for each call.
MAX_TOKENS: Final = 10_000
MARGIN: Final = 30.0
"""Seconds before its end from which a token is no longer used: clocks differ, and requests take time."""
UNKNOWN_LIFETIME: Final = 60.0
"""Seconds for which a token is kept when the server does not say how long it is valid."""


class TokenCache:
    """Hold tokens by key until shortly before they expire. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens: TLRUCache[bytes, tuple[RequestParts, float]] = TLRUCache(
            MAX_TOKENS, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )
        self._fetches = SingleFlight[bytes, RequestParts]()

    async def get_parts(
        self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None = None
    ) -> RequestParts:
        """Return parts with the token of ``key``, else of ``fetch``, once for all callers; kept ``at_most`` seconds."""
        cached = self._tokens.get(key)
        if cached is not None:
            return cached[0]
        return await self._fetches.join(key, lambda: self._fetch_token(key, fetch, at_most))

    def forget(self, key: bytes) -> None:
        """Drop the token of ``key``, so that the next request fetches a new one."""
        self._tokens.pop(key, None)

    async def _fetch_token(
        self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None
    ) -> RequestParts:
        grant = await fetch()
        keep = UNKNOWN_LIFETIME if grant.expires_in is None else grant.expires_in - MARGIN
        if at_most is not None:
            keep = min(keep, at_most - MARGIN)
        parts = RequestParts({"Authorization": f"Bearer {grant.token}"})
        if keep > 0:
            self._tokens[key] = (parts, keep)
        return parts
