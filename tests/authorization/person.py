"""Official clients that log in with a person's help: what they remember, and the browser that they open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import httpx2
from mcp.client.auth import AuthorizationCodeResult
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.clients.environments import DRIVERS, node
from tests.waiting import PATIENCE

REDIRECT: Final = "http://127.0.0.1:3030/callback"
METADATA: Final = OAuthClientMetadata(client_name="tests", redirect_uris=[AnyUrl(REDIRECT)])
Visit: TypeAlias = Callable[[str], Awaitable[Mapping[str, str]]]
"""Goes to a URL of an authorization server, as a browser does: what the redirect URI is given in the end."""


class Storage:
    """A client's memory. With ``client_id`` it was told one, and registers itself nowhere."""

    def __init__(self, client_id: str | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if client_id is not None:
            self.client = OAuthClientInformationFull(
                client_id=client_id, redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none"
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Declined(Exception):
    """What a client raises whose redirect URI got an error."""


class Browser:
    """Goes where the client sends a person, who may decline, and hands over what the client's redirect URI gets."""

    def __init__(self, visit: Visit, *, declines: bool = False) -> None:
        self.visits = 0
        self._visit = visit
        self._more = "&login_hint=deny" if declines else ""
        self._answered: Mapping[str, str] = {}

    async def open(self, url: str) -> None:
        self.visits += 1
        self._answered = await self._visit(url + self._more)

    async def callback(self) -> AuthorizationCodeResult:
        if "error" in self._answered:
            raise Declined(self._answered["error"])
        return AuthorizationCodeResult(**self._answered)


@asynccontextmanager
async def connected(url: str, auth: httpx2.Auth, mode: Any) -> AsyncIterator[Client]:
    """The Python client at a gateway."""
    async with (
        httpx2.AsyncClient(auth=auth, timeout=10) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def npm_login(visit: Visit, **order: Any) -> dict[str, Any]:
    """What ``tests/clients/drivers/login.mjs`` did by this order: ``client``, ``era``, ``url``, ``tool``,
    ``arguments``, ``clientId`` where it is told one, ``key`` where it shows one instead, and ``more`` calls."""
    program = await asyncio.to_thread(node)
    driver = await asyncio.create_subprocess_exec(
        program, DRIVERS / "login.mjs", json.dumps(order), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                said: dict[str, Any] = json.loads(await driver.stdout.readline())
                if "open" not in said:
                    return said
                driver.stdin.write(json.dumps(await visit(said["open"])).encode() + b"\n")
    finally:
        if driver.returncode is None:
            driver.kill()
        await driver.wait()
