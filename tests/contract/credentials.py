"""Provide the tests of credentials with each mode's settings, a token endpoint, and a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from gateway import credentials
from gateway.auth.jwks import FetchFailed
from gateway.backend.http import HttpTransport
from gateway.backend.refusals import CredentialTries
from gateway.credentials.contract import Credential
from gateway.credentials.exchange import ClientCredentials, TokenExchange
from gateway.credentials.grants import BackendEndpoint, TokenClient
from gateway.credentials.login import LoginCredential
from gateway.http_client.session import Outbound
from gateway.model import AccessToken, Caller, MessageForm, Principal, View
from gateway.settings import Credentials
from gateway.store.memory import MemoryStore
from tests.authorization.token_endpoint import TokenEndpoint
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend

SECRET: Final = "s3cret:with/colon"
STATIC: Final = "Basic Z2F0ZXdheTpzZXNhbWU="
ISSUER: Final = "https://login.example.com"
LIFE: Final = 600.0
BEGAN: Final = 1_000_000.0
CLIENT: Final = {"client_id": "gw", "client_secret": SECRET}
MODES: Final[dict[str, dict[str, Any]]] = {
    "same_resource": {"backend_audience": "https://gw.example.com/mcp"},
    "token_exchange": {**CLIENT, "audience": "https://backend.example.com", "scope": "rpc.call"},
    "client_credentials": {**CLIENT, "resource": "https://backend.example.com/rpc"},
    "static": {"send": {"headers": {"Authorization": STATIC}}},
    "basic": {"user": "gw", "password": SECRET},
    "digest": {"user": "gw", "password": SECRET},
    "login": {
        "user": "gw",
        "password": SECRET,
        "login": {"method": "log.in", "params": ["{user}", "{password}"], "find": {"session": "$.result"}},
        "send": {"headers": {"Authorization": "Session {session}"}},
    },
    "none": {},
}
FETCHED: Final = ("token_exchange", "client_credentials")


SESSION: Final = "session-of-the-gateway"


class World:
    """Hold a token endpoint, a backend that lets everybody log in, an HTTP client, and a clock."""

    def __init__(self, endpoint: TokenEndpoint, backend: ScriptedBackend, outbound: Outbound) -> None:
        self.endpoint = endpoint
        self.backend = backend
        self.outbound = outbound
        self.now = BEGAN
        self.timeout = 5.0

    def clock(self) -> float:
        return self.now

    def caller(self, subject: str, expires: float = BEGAN + LIFE) -> Caller:
        token = AccessToken(f"token-of-{subject}")
        principal = Principal(ISSUER, subject, "client", frozenset(), expires, token)
        return Caller("127.0.0.1", View(ISSUER, subject), principal)

    def tokens(self, settings: Credentials) -> TokenClient:
        async def token_endpoint_url() -> str:
            if not self.endpoint.url:
                raise FetchFailed("the issuer's metadata have no token_endpoint")
            return self.endpoint.url

        backend = BackendEndpoint(HttpTransport(self.outbound, self.backend.url), self.backend.url, MessageForm())
        tries = CredentialTries(MemoryStore(self.clock), "", self.clock)
        return TokenClient(self.outbound, settings, token_endpoint_url, backend, tries, self.timeout)

    def credential(self, mode: str) -> Credential:
        settings = Credentials.model_validate({"mode": mode, **MODES[mode]})
        tokens = self.tokens(settings)
        if mode == "token_exchange":
            return TokenExchange(tokens, self.clock, self.clock)
        if mode == "client_credentials":
            return ClientCredentials(tokens, self.clock, self.clock)
        if mode == "login":
            return LoginCredential(tokens, self.clock)
        return credentials.MODES[mode](tokens)


async def shown(credential: Credential, caller: Caller) -> str | None:
    """Return the ``Authorization`` header that the backend gets. Assert that there is no other header."""
    headers = dict((await credential.request_parts(caller)).headers)
    found = headers.pop("Authorization", None)
    assert not headers
    return found


@asynccontextmanager
async def credentials_world(endpoint: TokenEndpoint) -> AsyncIterator[World]:
    async with ScriptedBackend() as backend:
        backend.on("log.in", result(SESSION))
        outbound = Outbound()
        try:
            yield World(endpoint, backend, outbound)
        finally:
            await outbound.close()
