"""Clients of the HTTP+SSE transport (2024-11-05), which begin with a GET: they hear at once that it is not served here.

Streams that resume are not served either (2025-11-25, basic/transports "Resumability and Redelivery", a MAY).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tests.authorization.stand import stand
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import LEGACY, SESSION, Client, legacy_headers

pytestmark = pytest.mark.usefixtures("both_servers")

LISTENER: Final = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}


@each("headers", {"old client": LISTENER, "bare": {}, "browser": {"Accept": "text/html"}})
async def test_a_get_that_names_neither_session_nor_revision_is_405(
    client: Client, backend: ScriptedBackend, headers: Mapping[str, str]
) -> None:
    answer = await client.send("GET", "/mcp", headers=headers)
    assert (answer.fault, answer.headers["Allow"]) == ((405, 405), "POST, DELETE")
    assert "id" not in answer.json
    for words in ("Streamable HTTP", "HTTP+SSE", "POST"):
        assert words in answer.error["message"]
    assert backend.requests == []


@each("version", LEGACY)
async def test_a_stream_is_not_resumed(client: Client, version: str) -> None:
    session = await client.initialize(version)
    headers = LISTENER | legacy_headers(version, session) | {"Last-Event-ID": "7"}
    answer = await client.send("GET", "/mcp", headers=headers)
    assert (answer.fault, answer.headers["Allow"]) == ((405, 405), "POST, DELETE")
    assert "resume" in answer.error["message"]


@each("version", LEGACY)
async def test_no_event_has_an_id_and_the_first_is_none(client: Client, version: str) -> None:
    """An event with an id and no data would promise that a client may come back with that id."""
    session = await client.initialize(version)
    async with client.request("GET", "/mcp", None, LISTENER | legacy_headers(version, session)) as answer:
        first = await answer.content.readuntil(b"\n\n")
        answer.close()
    assert (answer.status, first) == (200, b":\n\n")


@each("named", ["revision", "session"])
async def test_either_name_opens_the_stream(client: Client, backend: ScriptedBackend, named: str) -> None:
    """It asks the service nothing."""
    session = await client.initialize()
    headers = {SESSION: session} if named == "session" else legacy_headers(LEGACY[0])
    async with client.stream(headers=headers) as stream:
        await stream.comment()
    assert backend.requests == []


async def test_who_has_no_token_hears_of_that_first() -> None:
    async with stand() as it:
        refused = await it.client().send("GET", "/mcp", headers=LISTENER)
        assert (refused.status, "WWW-Authenticate" in refused.headers) == (401, True)
        known = await it.of("ann").send("GET", "/mcp", None, LISTENER)
        assert known.fault == (405, 405)
