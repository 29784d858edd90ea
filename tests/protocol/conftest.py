"""A scripted backend, and gateways in front of it that are driven over real HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import pytest
from aiohttp import ClientSession

from gateway.config.source import load_settings
from gateway.process.server import Server
from gateway.settings import Settings
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import ground
from tests.protocol.catalog import METHODS
from tests.protocol.talk import Client

Start = Callable[..., Awaitable[Server]]


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
async def start(backend: ScriptedBackend) -> AsyncIterator[Start]:
    """``await start("section.knob=value", ...)`` is a running gateway whose first listing is over."""
    async with AsyncExitStack() as stack:

        async def started(*knobs: str, url: str = "") -> Server:
            gateway = Server(settings(url or backend.url, *knobs))
            await gateway.start()
            stack.push_async_callback(gateway.stop)
            await gateway.wait_until_listed()
            backend.requests.clear()
            return gateway

        yield started


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


@pytest.fixture
async def gateway(start: Start) -> Server:
    return await start()


@pytest.fixture
def client(gateway: Server, session: ClientSession) -> Client:
    return Client(session, gateway.port)


@pytest.fixture
def connect(start: Start, session: ClientSession) -> Callable[..., Awaitable[Client]]:
    """``await connect("section.knob=value", ...)`` is a client of a gateway of its own."""

    async def connected(*knobs: str, url: str = "") -> Client:
        return Client(session, (await start(*knobs, url=url)).port)

    return connected
