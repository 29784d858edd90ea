"""A token for the backend, had for the caller's (RFC 8693): for backends that are a protected resource of their own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Final

from gateway.credentials.grants import ACCESS_TOKEN_TYPE, Grant, GrantRefused, TokenClient, refused
from gateway.credentials.kept import KeptTokens
from gateway.credentials.plain import principal_token
from gateway.errors import Unauthorized
from gateway.model import Caller

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_USABLE_TYPES: Final = (ACCESS_TOKEN_TYPE, "urn:ietf:params:oauth:token-type:jwt")


class TokenExchange:
    """``clock`` is wall-clock seconds."""

    callers_own = False

    def __init__(
        self, tokens: TokenClient, kept: KeptTokens | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._tokens = tokens
        self._kept = kept or KeptTokens()
        self._clock = clock

    def __repr__(self) -> str:
        return f"<TokenExchange for {self._tokens.settings.audience or self._tokens.settings.resource}>"

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        raw = principal_token(caller)
        key = _key(raw)
        remaining = caller.principal.expires - self._clock() if caller.principal else 0.0
        token = await self._kept.token(key, lambda: self._exchange(raw), remaining)
        return {"Authorization": f"Bearer {token}"}

    def refused(self, caller: Caller) -> None:
        if caller.principal is not None:
            self._kept.forget(_key(caller.principal.token.reveal()))

    def secrets(self) -> tuple[str, ...]:
        return self._tokens.secrets()

    async def _exchange(self, raw: str) -> Grant:
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": raw,
            "subject_token_type": ACCESS_TOKEN_TYPE,
            "requested_token_type": ACCESS_TOKEN_TYPE,
        }
        try:
            grant = await self._tokens.grant(form)
        except GrantRefused as error:
            if error.error == "invalid_grant":
                raise Unauthorized("The access token is not valid here", error="invalid_token") from None
            raise refused(f"token exchange: {error.error}") from None
        if grant.issued_type not in _USABLE_TYPES:
            raise refused("token exchange does not say that what it gives is an access token (issued_token_type)")
        return grant


def _key(raw: str) -> bytes:
    return hashlib.sha256(raw.encode()).digest()
