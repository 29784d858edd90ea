"""Start a gateway on one of the two HTTP servers that can carry it, for tests that must not see which one it is.

pytestmark = pytest.mark.usefixtures("both_servers")  # each test of the file runs on each server

@pytest.mark.own_server("why")  # but not this one

The fixture ``both_servers`` (tests/conftest.py) chooses the server for what is started within the test. Elsewhere it is
our own one. A test with many rows runs on aiohttp's with the first of them by day, and with all in `make fault`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from aiohttp.test_utils import BaseTestServer, TestClient, TestServer
from aiohttp.web import BaseRunner
from yarl import URL

from gateway.aiohttp_app import GATEWAY, aiohttp_app
from gateway.process.server import Server
from gateway.settings import Settings
from gateway.store import ServerStore

Item = TypeVar("Item")
MakeServer: TypeAlias = Callable[[Settings, ServerStore | None], BaseTestServer]
MakeClient: TypeAlias = Callable[[BaseTestServer], Awaitable[TestClient[Any, Any]]]


class OwnServer(BaseTestServer):
    """Serve a gateway on our own HTTP/1.1 server, at a free port."""

    def __init__(self, settings: Settings, store: ServerStore | None = None) -> None:
        super().__init__(scheme="http")
        self.gateway = Server(settings, store)

    @property
    def started(self) -> bool:
        return self._root is not None

    async def start_server(self, loop: object = None, **kwargs: Any) -> None:
        """Start the gateway unless it runs. Raise what :meth:`Server.start` raises."""
        if not self.started:
            await self.gateway.start()
            self.port = self.gateway.port
            self._root = URL(f"http://{self.host}:{self.port}")

    async def close(self) -> None:
        if self.started and not self.closed:
            await self.gateway.stop()
            self._closed = True

    async def _make_runner(self, **kwargs: Any) -> BaseRunner:
        raise NotImplementedError  # Server accepts its connections itself


class AppServer(TestServer):
    """Serve a gateway as the application of aiohttp's server."""

    def __init__(self, settings: Settings, store: ServerStore | None = None) -> None:
        assert store is None, "an application opens the store that its settings name"
        super().__init__(aiohttp_app(settings, admin=True))
        self.gateway = self.app[GATEWAY]

    async def start_server(self, loop: object = None, **kwargs: Any) -> None:
        if not self.started:
            await super().start_server(**kwargs)
            assert self.port is not None
            self.gateway.port = self.port  # where tests find it; the gateway itself has no public port


async def _client(server: BaseTestServer) -> TestClient[Any, Any]:
    return TestClient(server)


SERVERS: Final[dict[str, MakeServer]] = {"own": OwnServer, "aiohttp": AppServer}


@dataclass
class Choice:
    """Say on which server gateways run and what makes their clients. Count those that were started."""

    make_server: MakeServer = OwnServer
    make_client: MakeClient = _client
    started: int = 0


_CHOICE: Final[ContextVar[Choice]] = ContextVar("choice", default=Choice())  # noqa: B039 - what it counts is not read


@contextmanager
def on_server(name: str, make_client: MakeClient) -> Iterator[Choice]:
    """Let gateways that are started within run on this server of :data:`SERVERS`. ``make_client`` makes their clients,
    as ``aiohttp_client`` of pytest-aiohttp does."""
    choice = Choice(SERVERS[name], make_client)
    token = _CHOICE.set(choice)
    try:
        yield choice
    finally:
        _CHOICE.reset(token)


@asynccontextmanager
async def served(settings: Settings, store: ServerStore | None = None) -> AsyncIterator[TestClient[Any, Any]]:
    """Start a gateway and yield its client once the first listing is over; ``gateway_of`` is what it talks to. Raise
    what the start raises."""
    choice = _CHOICE.get()
    choice.started += 1
    server = choice.make_server(settings, store)
    await server.start_server()  # before there is a client: a start that fails leaves nothing open
    client = await choice.make_client(server)
    try:
        await gateway_of(client).wait_until_listed()
        yield client
    finally:
        await client.close()


def first_row_on_aiohttp(items: Sequence[Item], server: Callable[[Item], str | None]) -> list[Item]:
    """Return the rows of one test without the second and later ones on aiohttp's server."""
    later = [item for item in items if server(item) == "aiohttp"][1:]
    return [item for item in items if item not in later]


def gateway_of(client: TestClient[Any, Any]) -> Server:
    """Return the gateway behind a client."""
    assert isinstance(client.server, OwnServer | AppServer)
    return client.server.gateway
