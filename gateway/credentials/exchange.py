"""Send a token for the backend: one that the caller's was exchanged for (RFC 8693), where the backend is a protected
resource of its own; or the gateway's own (RFC 6749 §4.4), where it knows no users."""

import hashlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Final

from cachetools import TLRUCache

from gateway.backend.request_parts import RequestParts
from gateway.concurrency.single_flight import SingleFlight
from gateway.credentials.contract import Credential, CredentialModes
from gateway.credentials.grants import ACCESS_TOKEN_TYPE, Grant, TokenClient, credential_unavailable
from gateway.errors import Unauthorized
from gateway.model import Caller
from gateway.settings import ServiceSettings

MAX_TOKENS: Final = 10_000
MARGIN: Final = 30.0
"""Seconds before its end from which a token is no longer used: clocks differ, and requests take time."""
UNKNOWN_LIFETIME: Final = 60.0
"""Seconds for which a token is kept when the server does not say how long it is valid."""
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_USABLE_TYPES: Final = (ACCESS_TOKEN_TYPE, "urn:ietf:params:oauth:token-type:jwt")


class _GrantedToken(Credential):
    """Send a token that an authorization server grants, and keep it until shortly before it expires. ``clock`` is
    monotonic seconds, ``wall_clock`` those of the wall clock."""

    def __init__(
        self,
        tokens: TokenClient,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(tokens)
        # A token is kept as the parts of a request that carry it: the forms in which a result may quote it are then
        # found out once for each token and not for each call.
        self._kept: TLRUCache[bytes, tuple[RequestParts, float]] = TLRUCache(
            MAX_TOKENS, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )
        self._requests = SingleFlight[bytes, RequestParts]()
        self._wall_clock = wall_clock

    async def request_parts(self, caller: Caller) -> RequestParts:
        key = self._key(caller)
        if (kept := self._kept.get(key)) is not None:
            return kept[0]
        return await self._requests.join(key, lambda: self._request_parts(key, caller))

    def discard_token(self, caller: Caller) -> None:
        self._kept.pop(self._key(caller), None)

    def _key(self, caller: Caller) -> bytes:
        """Return what the token is kept by, the same for all callers unless theirs are exchanged."""
        exchanged = caller.token if self.per_caller else None
        return b"" if exchanged is None else hashlib.sha256(exchanged.reveal().encode()).digest()

    async def _request_parts(self, key: bytes, caller: Caller) -> RequestParts:
        grant = await self._request_grant(caller)
        lifetime = UNKNOWN_LIFETIME + MARGIN if grant.expires_in is None else grant.expires_in
        if self.per_caller and caller.principal is not None:  # no longer than the token that it was exchanged for
            lifetime = min(lifetime, caller.principal.expires - self._wall_clock())
        parts = RequestParts({"Authorization": f"Bearer {grant.token}"})
        if lifetime > MARGIN:
            self._kept[key] = (parts, lifetime - MARGIN)
        return parts

    @abstractmethod
    async def _request_grant(self, caller: Caller) -> Grant:
        """Request a token from the server."""


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

    async def _request_grant(self, caller: Caller) -> Grant:
        if caller.token is None:
            raise Unauthorized("This needs an access token")
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": caller.token.reveal(),
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

    async def _request_grant(self, caller: Caller) -> Grant:
        return await self._tokens.request_token("client credentials", {"grant_type": "client_credentials"})
