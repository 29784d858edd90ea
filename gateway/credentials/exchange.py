"""Send a token for the backend: one that the caller's was exchanged for (RFC 8693), where the backend is a protected
resource of its own; or the gateway's own (RFC 6749 §4.4), where it knows no users."""

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential, CredentialModes
from gateway.credentials.grants import ACCESS_TOKEN_TYPE, Grant, TokenCache, TokenClient, credential_unavailable
from gateway.errors import Unauthorized
from gateway.model import Caller
from gateway.settings import ServiceSettings

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_USABLE_TYPES: Final = (ACCESS_TOKEN_TYPE, "urn:ietf:params:oauth:token-type:jwt")


class _GrantedToken(Credential):
    """Send a token that an authorization server grants. ``clock`` is wall-clock seconds."""

    def __init__(
        self, tokens: TokenClient, cache: TokenCache | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(tokens)
        self._cache = cache or TokenCache()
        self._clock = clock

    def discard_token(self, caller: Caller) -> None:
        self._cache.forget(self._key(caller))

    def _key(self, caller: Caller) -> bytes:
        """Return the key of the token in the cache, the same for all callers unless theirs are exchanged."""
        own = caller.token.reveal() if self.per_caller and caller.token is not None else ""
        return hashlib.sha256(own.encode()).digest()


class TokenExchange(_GrantedToken):
    """Send a token that the caller's was exchanged for."""

    name = "token_exchange"
    shows = "a token for the backend, exchanged for the caller's (RFC 8693)"
    per_caller = True
    needs = (("client_id",), ("client_secret",), ("audience", "resource"))

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if settings.backend.credentials.token_endpoint is None and len(settings.auth.issuers) > 1:
            yield (
                f"{settings.knob('backend.credentials.token_endpoint')}: must be set with several "
                f"{settings.knob('auth.issuers')}: the tokens of all of them are sent to it, so you choose it, and not "
                "the first of them"
            )

    async def request_parts(self, caller: Caller) -> RequestParts:
        if caller.principal is None or (token := caller.token) is None:
            raise Unauthorized("This needs an access token")
        raw = token.reveal()
        # The cache must not keep a token longer than the one that it was exchanged for.
        remaining = caller.principal.expires - self._clock()
        return await self._cache.get_parts(self._key(caller), lambda: self._exchange(raw), remaining)

    async def _exchange(self, raw: str) -> Grant:
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": raw,
            "subject_token_type": ACCESS_TOKEN_TYPE,
            "requested_token_type": ACCESS_TOKEN_TYPE,
        }
        grant = await self._tokens.request_token("token exchange", form)
        if grant.issued_type not in _USABLE_TYPES:
            raise credential_unavailable("token exchange: issued_token_type is neither an access token nor a JWT")
        return grant


class ClientCredentials(_GrantedToken):
    name = "client_credentials"
    shows = "the gateway's own access token (RFC 6749 §4.4)"
    sends_own_secret = True
    needs = (("client_id",), ("client_secret",))

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if not settings.auth.traits.has_issuers and settings.backend.credentials.token_endpoint is None:
            where = settings.knob("backend.credentials.token_endpoint")
            mode = f"{settings.knob('auth.mode')}: {settings.auth.mode}"
            yield f"{where}: must be set with {mode}, since there is no issuer whose metadata have it"

    async def request_parts(self, caller: Caller) -> RequestParts:
        form = {"grant_type": "client_credentials"}
        request = partial(self._tokens.request_token, "client credentials", form)
        return await self._cache.get_parts(self._key(caller), request)
