"""Tokens from an authorization server's token endpoint (RFC 6749 §3.2), for the gateway to show the backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from gateway.auth.jwks import FetchFailed
from gateway.auth.oauth_client import OAuthClient
from gateway.errors import AuthUnavailable, BackendUnavailable
from gateway.outbound import AnswerTooLarge, Outbound, OutboundError
from gateway.settings import Credentials

TIMEOUT: Final = 10.0
MAX_LIFETIME: Final = 86400.0
"""Seconds after which a token is had anew, however long it is said to be good."""
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105

log = structlog.get_logger()


class GrantRefused(Exception):
    """The authorization server's ``error`` (RFC 6749 §5.2), a word such as invalid_grant."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class Grant:
    """A bearer token, and for how many seconds it is good; None where the server does not say."""

    token: str = field(repr=False)
    expires_in: float | None
    issued_type: str | None = None


class TokenClient:
    """One token endpoint; ``token_endpoint`` gives its address and raises :class:`FetchFailed`. ``timeout`` is in
    seconds."""

    def __init__(
        self,
        outbound: Outbound,
        settings: Credentials,
        token_endpoint: Callable[[], Awaitable[str]],
        timeout: float = TIMEOUT,
    ) -> None:
        self.settings = settings
        self._client = OAuthClient(outbound, settings, token_endpoint, timeout)

    async def request_token(self, form: Mapping[str, str]) -> Grant:
        """Raises :class:`GrantRefused`, :class:`~gateway.errors.AuthUnavailable`,
        :class:`~gateway.errors.BackendUnavailable` where the answer is no grant that could be used."""
        wanted = {"audience": self.settings.audience, "resource": self.settings.resource, "scope": self.settings.scope}
        try:
            answer = await self._client.post({**form, **{name: value for name, value in wanted.items() if value}})
        except AnswerTooLarge as error:
            raise credential_unavailable(f"the token endpoint's answer is {error}") from None
        except (OutboundError, FetchFailed) as error:
            raise _unavailable(str(error)) from None
        if answer.status >= 500 or answer.status == 429:
            raise _unavailable(f"HTTP {answer.status}")
        members = answer.members
        if members is None:
            raise credential_unavailable("the token endpoint does not answer with a JSON object")
        error_word = members.get("error")
        if answer.status != 200:
            raise GrantRefused(error_word if isinstance(error_word, str) else f"HTTP {answer.status}")
        return _grant_of(members)


def _grant_of(members: Mapping[str, Any]) -> Grant:
    token, kind = members.get("access_token"), members.get("token_type")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token or " " in token:
        raise credential_unavailable("the token endpoint gives no access_token that a header could hold")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise credential_unavailable("the token endpoint gives a token that is no bearer token")
    lifetime = members.get("expires_in")
    good_for = None
    if isinstance(lifetime, int | float) and not isinstance(lifetime, bool):
        good_for = float(min(max(lifetime, 0), MAX_LIFETIME))
    issued_type = members.get("issued_token_type")
    return Grant(token, good_for, issued_type if isinstance(issued_type, str) else None)


def credential_unavailable(reason: str) -> BackendUnavailable:
    """A failure that the operator has to mend; the caller learns no more than that."""
    log.error("no token for the backend", reason=reason)
    return BackendUnavailable("The gateway has no credential for the backend")


def _unavailable(reason: str) -> AuthUnavailable:
    log.warning("the token endpoint does not answer", reason=reason)
    return AuthUnavailable("The authorization server does not answer at the moment", retry_after=5)
