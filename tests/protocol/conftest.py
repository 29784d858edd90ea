"""A scripted backend, and gateways in front of it that are driven over real HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient

from gateway.config.source import load_settings
from gateway.process.server import Server
from gateway.settings import Settings
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import ground
from tests.http_servers import gateway_of, served
from tests.protocol.catalog import METHODS
from tests.protocol.talk import Client

Start = Callable[..., Awaitable[Server]]
Serve = Callable[..., Awaitable[TestClient[Any, Any]]]
Connect = Callable[..., Awaitable[Client]]


@pytest.fixture(autouse=True)
def no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here speaks TLS, and reading the system's CA certificates is most of what a gateway's start costs."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)


@pytest.fixture
def methods() -> Sequence[Rpc]:
    """What the backend lists; a module that needs others overrides this."""
    return METHODS


def settings(url: str, *knobs: str) -> Settings:
    """Settings for a gateway on free ports in front of ``url``, open to all unless ``knobs`` say who may call."""
    return load_settings(None, ground(url, "backend.listing.dialect=openrpc", *knobs), environ={})


@pytest.fixture
async def serve(backend: ScriptedBackend) -> AsyncIterator[Serve]:
    """``await serve("section.knob=value", ...)`` is the client of a running gateway whose first listing is over."""
    async with AsyncExitStack() as stack:

        async def serving(*knobs: str, url: str = "") -> TestClient[Any, Any]:
            http = await stack.enter_async_context(served(settings(url or backend.url, *knobs)))
            backend.requests.clear()
            return http

        yield serving


@pytest.fixture
def start(serve: Serve) -> Start:
    """``await start("section.knob=value", ...)`` is the gateway itself."""

    async def started(*knobs: str, url: str = "") -> Server:
        return gateway_of(await serve(*knobs, url=url))

    return started


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


@pytest.fixture
async def http(serve: Serve) -> TestClient[Any, Any]:
    """Return the client of a gateway without knobs."""
    return await serve()


@pytest.fixture
def gateway(http: TestClient[Any, Any]) -> Server:
    return gateway_of(http)


@pytest.fixture
def client(http: TestClient[Any, Any]) -> Client:
    return Client(http.session, http.port)


@pytest.fixture
def connect(serve: Serve) -> Connect:
    """``await connect("section.knob=value", ...)`` is a client of a gateway of its own."""

    async def connected(*knobs: str, url: str = "") -> Client:
        http = await serve(*knobs, url=url)
        return Client(http.session, http.port)

    return connected


@pytest.fixture
def connect_once(connect: Connect) -> Connect:
    """``await connect_once("section.knob=value", ...)`` is a client of the test's one gateway with these knobs.

    So the rows of a table share it.
    """
    clients: dict[tuple[str, ...], Client] = {}

    async def connected(*knobs: str) -> Client:
        if knobs not in clients:
            clients[knobs] = await connect(*knobs)
        return clients[knobs]

    return connected
