"""Sessions of 2024-11-05 to 2025-11-25 (basic/transports "Session management").

What takes a clock or another caller is in tests/unit/test_sessions.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import (
    JSON,
    LEGACY,
    SESSION,
    Answer,
    Client,
    legacy_headers,
    modern_headers,
    modern_request,
    request,
)

pytestmark = pytest.mark.usefixtures("both_servers")


LATEST = LEGACY[0]
PING = request("ping")
PROBE = {"name": "probe", "version": "1.0"}
HELLO = request("initialize", {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": PROBE})
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = request("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})


async def in_session(client: Client, session: str, body: object, version: str | None = LATEST) -> Answer:
    return await client.mcp(body, legacy_headers(version, session))


async def delete(client: Client, session: str | None, version: str | None = LATEST) -> Answer:
    return await client.send("DELETE", "/mcp", headers=legacy_headers(version, session))


async def get(client: Client, session: str) -> Answer:
    return await client.send("GET", "/mcp", headers=JSON | legacy_headers(LATEST, session))


@each("version", LEGACY)
async def test_initialize_gives_an_id_of_visible_ascii_that_is_accepted_from_then_on(
    client: Client, version: str
) -> None:
    """MUST be visible ASCII, SHOULD be unguessable and of one use."""
    session = await client.initialize(version)
    assert all(0x21 <= ord(character) <= 0x7E for character in session)
    assert len(session) >= 32
    assert await client.initialize(version) != session
    answer = await in_session(client, session, INITIALIZED, version)
    assert (answer.status, answer.body) == (202, b"")
    assert (await in_session(client, session, PING, version)).result == {}
    listed = await in_session(client, session, request("tools/list"), version)
    assert listed.result["tools"]
    assert SESSION not in listed.headers


async def test_no_two_sessions_have_the_same_id(client: Client) -> None:
    ids = {await client.initialize() for _ in range(20)}
    assert len(ids) == 20


@each("version", [*LEGACY, None])
async def test_a_request_without_a_session_is_served(client: Client, version: str | None) -> None:
    """Stateless clients of the older eras lose nothing but cancellation."""
    await client.initialize()
    assert (await client.legacy("tools/list", version=version)).result["tools"]


def forgeries(genuine: str) -> list[str]:
    changed = ("A" if genuine[20] != "A" else "B").join((genuine[:20], genuine[21:]))
    return ["", "x", "1868a90c-7ab6-4d0a-a3a3-6e0f7d0f9e3e", changed, genuine[:-2], genuine + "AA", genuine + "="]


@each("number", range(7))
async def test_a_forged_session_is_not_found(client: Client, backend: ScriptedBackend, number: int) -> None:
    """MUST be 404, whatever is asked, so that the client initializes again."""
    forged = forgeries(await client.initialize())[number]
    for body in (PING, request("tools/list"), CALL, INITIALIZED, request("nope")):
        assert (await in_session(client, forged, body)).fault == (404, -32600)
    assert (await get(client, forged)).fault == (404, -32600)
    assert (await delete(client, forged)).fault == (404, -32600)
    assert backend.requests == []


async def test_a_session_of_another_gateway_is_not_found(connect: Connect) -> None:
    one, other = await connect(), await connect()
    session = await one.initialize()
    assert (await in_session(other, session, PING)).fault == (404, -32600)
    assert (await delete(other, session)).fault == (404, -32600)
    assert (await in_session(one, session, PING)).result == {}


async def test_a_cursor_is_no_session_although_the_same_secret_signs_it(connect: Connect) -> None:
    client = await connect("catalog.page_size=1")
    cursor = (await client.legacy("tools/list")).result["nextCursor"]
    assert (await in_session(client, cursor, PING)).fault == (404, -32600)


async def test_any_replica_with_the_same_secret_serves_a_session(connect: Connect, tmp_path: Path) -> None:
    """Nothing is kept: the id says it all."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of more than sixteen bytes\n")
    one = await connect(f"server.secret_file={secret}")
    other = await connect(f"server.secret_file={secret}")
    session = await one.initialize("2025-06-18")
    assert (await in_session(other, session, CALL, None)).result["structuredContent"] == {"sum": 5}


async def test_a_session_outlives_a_secret_that_is_being_replaced(connect: Connect, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the first secret of all\n")
    session = await (await connect(f"server.secret_file={secret}")).initialize()
    secret.write_text("the second secret of all\nthe first secret of all\n")
    client = await connect(f"server.secret_file={secret}")
    assert (await in_session(client, session, PING)).result == {}
    secret.write_text("the second secret of all\n")
    client = await connect(f"server.secret_file={secret}")
    assert (await in_session(client, session, PING)).fault == (404, -32600)


@each("version", LEGACY)
async def test_a_request_without_a_version_header_is_of_the_session_s_revision(client: Client, version: str) -> None:
    """basic/transports "Protocol Version Header": the server SHOULD know it from the session."""
    session = await client.initialize(version)
    without = (await in_session(client, session, CALL, None)).result
    assert without == (await client.legacy("tools/call", CALL["params"], version=version)).result
    assert ("structuredContent" in without) == (version >= "2025-06-18")
    batch = await in_session(client, session, [PING], None)
    assert batch.status == (200 if version == "2025-03-26" else 400)


async def test_a_version_header_is_stronger_than_the_session(client: Client) -> None:
    session = await client.initialize("2025-11-25")
    assert "structuredContent" not in (await in_session(client, session, CALL, "2024-11-05")).result


@each("version", [*LEGACY, None])
async def test_delete_ends_a_session_for_good(client: Client, version: str | None) -> None:
    """204, and 404 from then on; other sessions go on."""
    session, other = await client.initialize(), await client.initialize()
    answer = await delete(client, session, version)
    assert (answer.status, answer.body) == (204, b"")
    assert (await in_session(client, session, PING, version)).fault == (404, -32600)
    assert (await get(client, session)).fault == (404, -32600)
    assert (await delete(client, session, version)).fault == (404, -32600)
    assert (await in_session(client, other, PING, version)).result == {}


@each("version", [*LEGACY, None])
async def test_delete_without_a_session_ends_nothing(client: Client, version: str | None) -> None:
    assert (await delete(client, None, version)).fault == (400, -32600)


async def test_a_client_whose_session_ended_may_initialize_anew_with_its_old_id(client: Client) -> None:
    session = await client.initialize()
    await delete(client, session)
    answer = await in_session(client, session, HELLO)
    assert answer.result["protocolVersion"] == LATEST
    assert (await in_session(client, answer.headers[SESSION], PING)).result == {}


async def test_an_initialize_that_is_refused_opens_no_session(client: Client) -> None:
    answer = await client.mcp([HELLO])
    assert answer.status == 400
    assert SESSION not in answer.headers


async def test_a_batch_in_a_session_that_ended_is_not_found(client: Client) -> None:
    session = await client.initialize("2025-03-26")
    assert (await in_session(client, session, [PING], None)).json[0]["result"] == {}
    await delete(client, session)
    assert (await in_session(client, session, [PING], None)).fault == (404, -32600)


async def test_the_modern_era_ignores_a_session(client: Client) -> None:
    """2026-07-28 streamable-http: neither read nor given, even one that ended."""
    session = await client.initialize()
    await delete(client, session)
    answer = await client.mcp(modern_request("tools/list"), modern_headers("tools/list") | {SESSION: session})
    assert answer.result["tools"]
    assert SESSION not in answer.headers
