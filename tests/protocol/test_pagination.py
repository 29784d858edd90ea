"""Pages and their cursors, on MCP in both eras and on REST.

server/utilities/pagination of every revision: an opaque cursor, none on the last page, -32602 for one that is not
ours. A cursor is the last name, signed: its caller's alone, for ten minutes, and following it has a budget of its own.
"""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from gateway.mcp.operations import cursor_signer
from gateway.model import ANONYMOUS
from gateway.process.server import Server
from gateway.signing import SigningKeys, read_secrets
from tests.each import each
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect, Start, settings
from tests.protocol.talk import LEGACY, MODERN, Answer, Client
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

ERAS = (MODERN, *LEGACY)
SURFACES = (*ERAS, "rest")
NAMES = ["alpha", "alpha-beta", "alpha_beta", "beta", "delta", "epsilon", "zeta"]
PAGES_OF_TWO = ("catalog.page_size=2",)
TIGHT = (*PAGES_OF_TWO, "limits.discovery=2/hour")


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [Rpc(name) for name in reversed(NAMES)]


async def page(client: Client, surface: str, cursor: str | None = None) -> Answer:
    if surface == "rest":
        return await client.get("/mcp/tools/list" + ("" if cursor is None else f"?cursor={cursor}"))
    return await client.speak(surface, "tools/list", None if cursor is None else {"cursor": cursor})


async def read(client: Client, surface: str, cursor: str | None = None) -> tuple[list[str], str | None]:
    """Names and next cursor of a page; on the last one MCP leaves the cursor out, and REST says null."""
    answer = await page(client, surface, cursor)
    content = answer.json if surface == "rest" else answer.result
    following = content["nextCursor"] if surface == "rest" else content.get("nextCursor")
    assert (following is not None) == ("nextCursor" in content) or surface == "rest"
    return [tool["name"] for tool in content["tools"]], following


async def rest_of(client: Client, surface: str, cursor: str | None) -> list[list[str]]:
    """The names on the pages from this cursor on."""
    pages = []
    while cursor is not None:
        names, cursor = await read(client, surface, cursor)
        pages.append(names)
    return pages


@each("surface", SURFACES)
async def test_no_tool_is_lost_and_none_is_repeated(connect_once: Connect, surface: str) -> None:
    client = await connect_once(*PAGES_OF_TWO)
    first, cursor = await read(client, surface)
    assert [first, *await rest_of(client, surface, cursor)] == [NAMES[0:2], NAMES[2:4], NAMES[4:6], NAMES[6:]]


@each("surface", SURFACES)
@each("size", [7, 8])
async def test_a_list_that_fits_has_no_next_page(connect_once: Connect, surface: str, size: int) -> None:
    client = await connect_once(f"catalog.page_size={size}")
    assert await read(client, surface) == (NAMES, None)


async def test_a_page_of_rest_has_at_most_fifty_tools_whatever_one_of_mcp_has(connect: Connect) -> None:
    async with ScriptedBackend([Rpc(f"m{number}") for number in range(60)]) as backend:
        client = await connect(url=backend.url)
        for surface, first in ((MODERN, 60), (LEGACY[0], 60), ("rest", 50)):
            names, cursor = await read(client, surface)
            rest = await rest_of(client, surface, cursor)
            assert [len(names), *map(len, rest)] == [first, 10][: 1 + (first < 60)]


async def test_every_page_may_be_kept_by_the_same(connect: Connect) -> None:
    """2026-07-28 server/utilities/caching: the same cacheScope on all pages MUST."""
    client = await connect(*PAGES_OF_TWO)
    first = (await page(client, MODERN)).result
    second = (await page(client, MODERN, first["nextCursor"])).result
    assert first["cacheScope"] == second["cacheScope"] == "public"
    assert second["ttlMs"] <= first["ttlMs"]


@each("surface", SURFACES)
@each_row
async def test_a_cursor_goes_on_in_a_catalog_that_changed_meanwhile(
    start: Start, session: ClientSession, backend: ScriptedBackend, surface: str, gone: str, expected: list[str]
) -> None:
    """A keyset: the position is a name, not a number, so nothing shifts."""
    gateway = await start(*PAGES_OF_TWO)
    client = Client(session, gateway.port)
    _, cursor = await read(client, surface)
    await gateway.reload(settings(backend.url, *PAGES_OF_TWO, f"catalog.exclude=[{gone}]"))
    assert list(chain(*await rest_of(client, surface, cursor))) == expected


@each("surface", SURFACES)
async def test_a_new_tool_appears_on_the_page_it_belongs_to(
    start: Start, session: ClientSession, backend: ScriptedBackend, surface: str
) -> None:
    gateway = await start(*PAGES_OF_TWO, "catalog.exclude=[alpha, epsilon]")
    client = Client(session, gateway.port)
    first, cursor = await read(client, surface)
    await gateway.reload(settings(backend.url, *PAGES_OF_TWO, "catalog.exclude=[]"))
    following = list(chain(*await rest_of(client, surface, cursor)))
    assert first + following == NAMES[1:], "epsilon was ahead and comes, alpha was behind and does not"


def forged(genuine: str) -> list[Any]:
    middle = genuine[len(genuine) // 2]
    tampered = genuine.replace(middle, "A" if middle != "A" else "B")
    unsigned = urlsafe_b64encode(b"alpha").rstrip(b"=").decode()
    resigned = urlsafe_b64encode(bytes(16) + b"alpha").rstrip(b"=").decode()
    return ["", "alpha", "2", tampered, unsigned, resigned, genuine[:-1], genuine + "A", genuine + "=", genuine * 2]


@each("surface", SURFACES)
async def test_a_forged_or_tampered_cursor_is_refused(connect_once: Connect, surface: str) -> None:
    """R19."""
    client = await connect_once(*PAGES_OF_TWO)
    _, genuine = await read(client, surface)
    assert genuine is not None
    for cursor in forged(genuine):
        answer = await page(client, surface, cursor)
        expected = (400, "invalid_cursor") if surface == "rest" else (200, -32602)
        assert answer.fault == expected, cursor
    assert (await read(client, surface, genuine))[0] == NAMES[2:4]


@each("era", ERAS)
@each("cursor", [5, True, [], {}, 1.5, "größe", "\u0000", "x" * 10_000])
async def test_a_cursor_that_cannot_be_one_is_refused(client: Client, era: str, cursor: Any) -> None:
    assert (await client.speak(era, "tools/list", {"cursor": cursor})).fault == (200, -32602)


@each("surface", SURFACES)
async def test_a_cursor_is_refused_by_a_gateway_with_another_secret(connect: Connect, surface: str) -> None:
    one, other = await connect(*PAGES_OF_TWO), await connect(*PAGES_OF_TWO)
    _, cursor = await read(one, surface)
    assert (await page(other, surface, cursor)).error["code"] in (-32602, "invalid_cursor")


@each("surface", SURFACES)
async def test_a_cursor_is_good_on_every_gateway_with_the_same_secret(
    connect: Connect, tmp_path: Path, surface: str
) -> None:
    """server.secret_file: replicas behind one address, and a secret that is being replaced."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("the-old-secret-of-32-bytes-or-so\n")
    new.write_text("the-new-secret-of-32-bytes-or-so\nthe-old-secret-of-32-bytes-or-so\n")
    one, same, rotated = [await connect(*PAGES_OF_TWO, f"server.secret_file={file}") for file in (old, old, new)]
    _, cursor = await read(one, surface)
    for replica in (same, rotated):
        assert (await read(replica, surface, cursor))[0] == NAMES[2:4]
    _, newer = await read(rotated, surface)
    assert (await page(one, surface, newer)).error["code"] in (-32602, "invalid_cursor")


@each("surface", SURFACES)
async def test_a_cursor_is_good_for_ten_minutes(
    connect: Connect, backend: ScriptedBackend, tmp_path: Path, surface: str
) -> None:
    """The cursors are those of a replica, whose clock is what the test says."""
    file = tmp_path / "secret"
    file.write_text("a-secret-of-32-bytes-or-somewhat-more\n")
    client = await connect(*PAGES_OF_TWO, f"server.secret_file={file}")
    keys = SigningKeys(read_secrets(str(file)), settings(backend.url).by_mount[""].mount_id)

    def issued(age: float) -> str:
        return cursor_signer(keys, lambda: time.time() - age).sign(NAMES[1], *ANONYMOUS.identity)

    assert (await read(client, surface, issued(9.5 * 60)))[0] == NAMES[2:4]
    answer = await page(client, surface, issued(10 * 60))
    assert answer.fault == ((400, "invalid_cursor") if surface == "rest" else (200, -32602))
    assert "list again" in answer.error["message"]


@each("surface", SURFACES)
async def test_of_cursors_ten_times_as_many_can_be_followed_as_listings_begun(connect: Connect, surface: str) -> None:
    """429 with Retry-After whatever the era, since it refuses the exchange."""
    client = await connect(*TIGHT)
    _, cursor = await read(client, surface)
    await read(client, surface)
    limited = (429, "rate_limited" if surface == "rest" else 429)
    refused = await page(client, surface)
    assert refused.fault == limited
    assert 1 <= int(refused.headers["Retry-After"]) <= 3600
    for _ in range(20):
        assert (await read(client, surface, cursor))[0] == NAMES[2:4]
    refused = await page(client, surface, cursor)
    assert refused.fault == limited
    assert 1 <= int(refused.headers["Retry-After"]) <= 3600
    assert (await page(client, surface, "forged")).status != 429


async def test_a_reload_changes_how_many_cursors_can_be_followed(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start(*TIGHT)
    client = Client(session, gateway.port)
    _, cursor = await read(client, "rest")
    await gateway.reload(settings(backend.url, *PAGES_OF_TWO, "limits.discovery=1/hour"))
    statuses = [(await page(client, "rest", cursor)).status for _ in range(11)]
    assert statuses == [200] * 10 + [429]


async def test_all_surfaces_share_one_budget(connect: Connect) -> None:
    """A client could otherwise list three times as often as it may."""
    client = await connect(*TIGHT)
    assert (await page(client, MODERN)).status == 200
    assert (await client.get("/mcp/tools/describe?name=alpha")).status == 200
    for surface in SURFACES:
        assert (await page(client, surface)).status == 429
    assert (await client.get("/mcp/tools/describe?name=alpha")).fault == (429, "rate_limited")


async def test_calls_discover_and_initialize_cost_nothing_of_it(connect: Connect) -> None:
    client = await connect(*TIGHT)
    for _ in range(5):
        assert (await client.modern("server/discover")).result
        assert (await client.legacy("initialize", {"protocolVersion": LEGACY[0]}, version=None)).result
        assert (await client.modern("tools/call", {"name": "alpha"})).result["isError"] is False
    assert (await page(client, MODERN)).status == 200


async def test_a_listing_costs_the_backend_nothing_while_it_is_fresh(gateway: Server, backend: ScriptedBackend) -> None:
    async with ClientSession() as session:
        client = Client(session, gateway.port)
        await asyncio.gather(*(page(client, surface) for surface in SURFACES * 3))
    assert backend.requests == []
