"""What tests of several folders stand before."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from typing import Any

import pytest
from pytest_aiohttp.plugin import AiohttpServer

from tests import starts
from tests.authorization.token_endpoint import TokenEndpoint, start_token_endpoint
from tests.extent import ALL_CASES
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.http_servers import SERVERS, MakeClient, first_row_on_aiohttp, on_server

pytest_plugins = ["tests.costs"]


def pytest_configure() -> None:
    # A job in the background of a shell ignores SIGINT, and so does each program that a test starts from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    choice = os.environ.get("STARTS", "fork")
    if choice not in ("fork", "exec"):
        raise pytest.UsageError(f"STARTS={choice}: it is fork or exec")
    starts.fork_server = starts.ForkServer() if choice == "fork" else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    if starts.fork_server is not None:
        starts.fork_server.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "both_servers" in metafunc.fixturenames:
        only_own = metafunc.definition.get_closest_marker("own_server") is not None
        metafunc.parametrize("both_servers", ["own"] if only_own else list(SERVERS), indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Leave out, by day, what tests/http_servers.py says."""
    made = yield
    if ALL_CASES or not isinstance(made, list):
        return made
    return first_row_on_aiohttp(made, _server_of)


def _server_of(item: Any) -> str | None:
    return item.callspec.params.get("both_servers") if hasattr(item, "callspec") else None


@pytest.fixture
def both_servers(request: pytest.FixtureRequest, aiohttp_client: MakeClient) -> Iterator[str]:
    """Run a test on each HTTP server, by its name. Whatever starts a gateway within the test takes that one."""
    with on_server(request.param, aiohttp_client) as choice:
        yield request.param
    ran_twice = request.node.get_closest_marker("own_server") is None
    assert choice.started or not ran_twice, 'no gateway was started: mark it @pytest.mark.own_server("no gateway: why")'


@pytest.fixture
def methods() -> Sequence[Rpc]:
    """What the backend lists; who needs others overrides this."""
    return METHODS


@pytest.fixture
async def backend(methods: Sequence[Rpc]) -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend(methods) as scripted:
        yield scripted


@pytest.fixture
async def endpoint(aiohttp_server: AiohttpServer) -> TokenEndpoint:
    """Return an authorization server's token endpoint, which runs until the test ends."""
    return await start_token_endpoint(aiohttp_server)
