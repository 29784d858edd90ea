"""A token of the gateway's own (RFC 6749 §4.4): for backends that know the gateway, and no users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.credentials.grants import Grant, GrantRefused, TokenClient, refused
from gateway.credentials.kept import KeptTokens
from gateway.model import Caller

_KEY: Final = b"own"


class ClientCredentials:
    callers_own = False

    def __init__(self, tokens: TokenClient, kept: KeptTokens | None = None) -> None:
        self._tokens = tokens
        self._kept = kept or KeptTokens()

    def __repr__(self) -> str:
        return f"<ClientCredentials of {self._tokens.settings.client_id}>"

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {await self._kept.token(_KEY, self._fetch)}"}

    def refused(self, caller: Caller) -> None:
        self._kept.forget(_KEY)

    def secrets(self) -> tuple[str, ...]:
        return self._tokens.secrets()

    async def _fetch(self) -> Grant:
        try:
            return await self._tokens.grant({"grant_type": "client_credentials"})
        except GrantRefused as error:
            raise refused(f"client credentials: {error.error}") from None
