"""Send the gateway's own access token (RFC 6749 §4.4): for backends that know the gateway, but no users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential, CredentialModes
from gateway.credentials.grants import Grant, GrantRefused, TokenCache, TokenClient, credential_unavailable
from gateway.model import Caller
from gateway.settings import ServiceSettings

_KEY: Final = b"own"  # of the one token that all callers share


class ClientCredentials(Credential):
    name = "client_credentials"
    shows = "the gateway's own access token (RFC 6749 §4.4)"
    sends_own_secret = True
    needs = (("client_id",), ("client_secret",))

    def __init__(self, tokens: TokenClient, cache: TokenCache | None = None) -> None:
        super().__init__(tokens)
        self._cache = cache or TokenCache()

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if not settings.auth.traits.has_issuers and settings.backend.credentials.token_endpoint is None:
            where = settings.knob("backend.credentials.token_endpoint")
            mode = f"{settings.knob('auth.mode')}: {settings.auth.mode}"
            yield f"{where}: must be set with {mode}, since there is no issuer whose metadata have it"

    async def request_parts(self, caller: Caller) -> RequestParts:
        return await self._cache.get_parts(_KEY, self._fetch_token)

    def discard_token(self, caller: Caller) -> None:
        self._cache.forget(_KEY)

    async def _fetch_token(self) -> Grant:
        try:
            return await self._tokens.request_token({"grant_type": "client_credentials"})
        except GrantRefused as error:
            raise credential_unavailable(f"client credentials: {error}") from None
