"""Two gateways with one secret that are different resources: neither takes what the other gave out.

The parts by themselves, and the store that they share, are in tests/unit/test_resources.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import CAPABILITIES, LEGACY, Answer, Client, legacy_headers, request

pytestmark = pytest.mark.usefixtures("both_servers")


CRM, SHOP = (f"server.public_url=https://gateway.example.com/{name}" for name in ("crm", "shop"))


@pytest.fixture
async def three(connect: Connect, tmp_path: Path) -> list[Client]:
    """A gateway, its replica, and one of another resource, in front of one service."""
    secret = tmp_path / "secret"
    secret.write_text("one-secret-for-all-of-32-bytes-or-so\n")
    knobs = (f"server.secret_file={secret}", "catalog.page_size=1", "catalog.tools.add.confirm=true")
    return [await connect(resource, *knobs) for resource in (CRM, CRM, SHOP)]


async def test_a_cursor(three: list[Client]) -> None:
    one, replica, other = three
    cursor = (await one.get("/mcp/tools/list")).json["nextCursor"]
    assert (await replica.get(f"/mcp/tools/list?cursor={cursor}")).status == 200
    assert (await other.get(f"/mcp/tools/list?cursor={cursor}")).fault == (400, "invalid_cursor")


async def test_a_session(three: list[Client]) -> None:
    one, replica, other = three
    headers = legacy_headers(LEGACY[0], await one.initialize())
    assert (await replica.mcp(request("ping"), headers)).result == {}
    assert (await other.mcp(request("ping"), headers)).fault == (404, -32600)


async def call(client: Client, **answer: Any) -> Answer:
    params = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": {CAPABILITIES: {"elicitation": {}}}, **answer}
    return await client.modern("tools/call", params)


async def test_a_state_and_a_person_s_consent(three: list[Client], backend: ScriptedBackend) -> None:
    one, replica, other = three
    state = (await call(one)).result["requestState"]
    agreed = {"requestState": state, "inputResponses": {"confirm": {"action": "accept", "content": {}}}}
    assert (await call(other, **agreed)).fault == (200, -32602)
    assert backend.requests == []
    assert (await call(replica, **agreed)).result["structuredContent"] == {"sum": 5}


async def test_without_a_public_url_what_counts_is_the_service_behind(
    connect: Connect, backend: ScriptedBackend, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one-secret-for-all-of-32-bytes-or-so\n")
    async with ScriptedBackend() as another:
        one, other = [await connect(f"server.secret_file={secret}", url=url) for url in (backend.url, another.url)]
        headers = legacy_headers(LEGACY[0], await one.initialize())
        assert (await other.mcp(request("ping"), headers)).fault == (404, -32600)
        assert (await one.mcp(request("ping"), headers)).result == {}
