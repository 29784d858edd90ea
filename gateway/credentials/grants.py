"""Request tokens for the backend from the token endpoint of an authorization server (RFC 6749 §3.2)."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from gateway.auth.issuers import OAuthClient
from gateway.auth.jwks import FetchFailed
from gateway.backend.refusals import CredentialTries
from gateway.backend.transport import Transport
from gateway.errors import AuthUnavailable, BackendUnavailable, Unauthorized
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


class CredentialUnavailable(BackendUnavailable):
    """Raised without a credential for the backend; ``reason`` is for the operator. ``busy``: nothing was decided."""

    def __init__(self, reason: str, *, busy: bool = False) -> None:
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
    """Request tokens at ``token_endpoint``, within ``timeout`` seconds. Modes that ask the backend use ``backend``, and
    ``tries`` to count what it refuses."""

    def __init__(
        self,
        outbound: Outbound,
        settings: Credentials,
        token_endpoint: Callable[[], Awaitable[str]],
        backend: BackendEndpoint,
        tries: CredentialTries,
        timeout: float = TIMEOUT,
    ) -> None:
        self.settings = settings
        self.backend = backend
        self.tries = tries
        self._client = OAuthClient(outbound, settings, token_endpoint, timeout)

    async def request_token(self, grant: str, form: Mapping[str, str]) -> Grant:
        """Return the token that the server issues for a form, which asks for a ``grant`` of this name. Raises
        ``Unauthorized`` where it refuses the caller's token in the form, ``AuthUnavailable`` where it does not answer,
        :class:`CredentialUnavailable` where it refuses the gateway, or its answer is unusable."""
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
            code = members.get("error")  # RFC 6749 §5.2
            if code == "invalid_grant" and "subject_token" in form:
                raise Unauthorized("The access token is not valid here", error="invalid_token")
            raise credential_unavailable(f"{grant}: {code if isinstance(code, str) else f'HTTP {status}'}")
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
