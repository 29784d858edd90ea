"""A test that runs on both HTTP servers does so: aiohttp's client talks to the one that the test is named after."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from gateway.process.server import Server
from tests.extent import ALL_CASES
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.http_servers import SERVERS
from tests.protocol.catalog import NAMES
from tests.protocol.conftest import Serve
from tests.protocol.talk import all_said, status_of

pytestmark = pytest.mark.usefixtures("both_servers")

NO_HTTP = b"GET /mcp HTTP/1.1 and more\r\n\r\n"


async def test_a_client_talks_to_the_server_that_the_test_is_named_after(
    http: TestClient[Any, Any], both_servers: str
) -> None:
    assert type(http.server) is SERVERS[both_servers]
    async with http.get("/mcp/tools/list") as answer:
        assert [tool["name"] for tool in (await answer.json())["tools"]] == list(NAMES)
        assert answer.headers["Server"] == "gateway"


async def test_each_way_to_start_a_gateway_takes_that_server(
    serve: Serve, gateway: Server, backend: ScriptedBackend, both_servers: str
) -> None:
    async with front(backend.url) as other:
        ports = [gateway.port, (await serve()).port, other.port]
        refusals = [await all_said(port or 0, NO_HTTP) for port in ports]
    assert {status_of(raw) for raw in refusals} == {400}
    assert [b"aiohttp" in raw for raw in refusals] == [both_servers == "aiohttp"] * 3


@pytest.mark.parametrize("row", ["first", "second"])
async def test_the_second_row_of_a_test_runs_on_our_own_server_alone_by_day(
    http: TestClient[Any, Any], both_servers: str, row: str
) -> None:
    assert type(http.server) is SERVERS[both_servers]
    assert ALL_CASES or (both_servers, row) != ("aiohttp", "second")
