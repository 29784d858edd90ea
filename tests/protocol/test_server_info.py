"""How the gateway introduces itself: as ``mcp.server`` says, else as the service's own listing does, else by its name.

schema.ts ``Implementation`` of each revision; ``instructions`` stand beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from gateway import __version__
from tests.authorization.stand import stand
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import METHODS, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import LEGACY, MODERN, SERVER, Client
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")


INFO: Final = {
    "title": "Bookshop",
    "version": "3.1",
    "description": "Sells books. Prices are in euros.",
    "contact": {"url": "https://books.example.com/about"},
}
ICON: Final = {"src": "https://books.example.com/icon.png", "sizes": ["48x48"], "theme": "dark"}
KNOBS: Final = {
    "name": "books",
    "instructions": "Search before you order.",
    "about": {
        "title": "Books and more",
        "description": "Search and order books.",
        "website_url": "https://books.example.com",
        "icons": [{**ICON, "mime_type": "image/png"}],
    },
}
ERAS: Final = (MODERN, *LEGACY)
every_era = each("era", ERAS)


def lists(backend: ScriptedBackend, info: object) -> None:
    """From now on the service says this of itself."""
    backend.on("rpc.discover", result({**openrpc(METHODS), "info": info}))


async def introduced(client: Client, era: str) -> tuple[dict[str, Any], Any]:
    """The implementation and the instructions that a client of this era is told."""
    if era == MODERN:
        found = (await client.modern("server/discover")).result
        return found["_meta"][SERVER], found.get("instructions")
    hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}
    found = (await client.legacy("initialize", hello, version=None)).result
    return found["serverInfo"], found.get("instructions")


def known(era: str, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return those members of an implementation that a revision has."""
    names = {"name", "version"}
    if era not in ("2025-03-26", "2024-11-05"):
        names.add("title")
    if era in (MODERN, "2025-11-25"):
        names |= {"description", "websiteUrl", "icons"}
    return {name: value for name, value in members.items() if name in names}


@every_era
async def test_the_operators_words_come_first(connect_once: Connect, backend: ScriptedBackend, era: str) -> None:
    lists(backend, INFO)
    client = await connect_once(f"mcp.server={json.dumps(KNOBS)}")
    server, instructions = await introduced(client, era)
    assert instructions == "Search before you order."
    assert server == known(
        era,
        {
            "name": "books",
            "title": "Books and more",
            "description": "Search and order books.",
            "version": "3.1",
            "websiteUrl": "https://books.example.com",
            "icons": [{**ICON, "mimeType": "image/png"}],
        },
    )


@every_era
async def test_what_the_operator_leaves_out_the_listing_says(
    connect_once: Connect, backend: ScriptedBackend, era: str
) -> None:
    lists(backend, INFO)
    server, instructions = await introduced(await connect_once(), era)
    assert instructions == "Sells books. Prices are in euros."
    website = "https://books.example.com/about"
    assert server == known(era, {"name": "Bookshop", "title": "Bookshop", "version": "3.1", "websiteUrl": website})


@every_era
@each("info", [{}, None, [], {"title": 5, "version": [], "description": {}, "contact": "x"}])
async def test_a_listing_that_says_nothing_leaves_the_gateways_own_name(
    connect: Connect, backend: ScriptedBackend, era: str, info: object
) -> None:
    lists(backend, info)
    own = {"name": "jsonrpc-mcp-gateway", "version": __version__}
    assert await introduced(await connect(), era) == (own, None)


@every_era
async def test_nobody_waits_for_a_listing(connect: Connect, backend: ScriptedBackend, era: str) -> None:
    client = await connect("mcp.server.about.title=Books", url=backend.refused_url)
    server, instructions = await introduced(client, era)
    assert (server["name"], instructions) == ("jsonrpc-mcp-gateway", None)
    assert ("title" in server) == ("title" in known(era, {"title": ""}))


async def test_each_result_names_the_server_in_short(connect: Connect, backend: ScriptedBackend) -> None:
    """2026-07-28, basic/index: every result. What is for people only, and large, is in that of server/discover."""
    lists(backend, INFO)
    client = await connect(f"mcp.server.about.icons={json.dumps([ICON])}")
    listed = (await client.modern("tools/list")).result
    called = (await client.modern("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})).result
    for found in (listed, called):
        assert found["_meta"][SERVER] == {"name": "Bookshop", "title": "Bookshop", "version": "3.1"}


async def test_a_service_that_is_renamed_is_called_so_without_a_change_of_its_tools(
    connect: Connect, backend: ScriptedBackend
) -> None:
    lists(backend, INFO)
    client = await connect("catalog.ttl=50ms")
    assert (await introduced(client, MODERN))[0]["name"] == "Bookshop"
    lists(backend, {"title": "Library"})
    async with asyncio.timeout(PATIENCE):
        while (name := (await introduced(client, MODERN))[0]["name"]) == "Bookshop":
            await client.modern("tools/list")
    assert name == "Library"


async def test_an_empty_text_is_the_operators_word_that_there_is_none(
    connect: Connect, backend: ScriptedBackend
) -> None:
    lists(backend, INFO)
    client = await connect("mcp.server={instructions: '', about: {title: ''}}")
    server, instructions = await introduced(client, MODERN)
    assert ("title" in server, instructions) == (False, None)


async def test_a_listings_words_are_cleaned_and_bounded(connect: Connect, backend: ScriptedBackend) -> None:
    hidden = "Book\u200b\u202eshop\x1b[31m"
    info = {"title": hidden + "t" * 5000, "version": hidden + "v" * 5000, "description": hidden + "d" * 50_000}
    lists(backend, info)
    server, instructions = await introduced(await connect(), MODERN)
    for text, most in ((server["name"], 256), (server["version"], 64), (instructions, 4096)):
        assert text.startswith("Bookshop[31m")
        assert len(text.encode()) <= most


@each(
    "url",
    [
        "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://books.example.com", "//b.example.com",
        "https://", "https:// books.example.com", "https://me:secret@books.example.com/", "https://b\u00fccher.example",
        "https://books.example.com/\n", "https://books.example.com/" + "x" * 3000, "https://books.example.com/\"><b>",
        5, None,
    ],
)  # fmt: skip
async def test_a_website_that_is_no_plain_http_url_is_left_out(
    connect: Connect, backend: ScriptedBackend, url: object
) -> None:
    lists(backend, {**INFO, "contact": {"url": url}})
    server, _ = await introduced(await connect(), MODERN)
    assert server == {"name": "Bookshop", "title": "Bookshop", "version": "3.1"}


async def test_a_listing_of_ones_own_introduces_the_service_to_its_caller_alone() -> None:
    async with stand() as it:
        ann, bob = it.of("ann"), it.of("bob")
        await ann.list(MODERN)
        told = (await ann.modern("server/discover")).result
        assert (told["_meta"][SERVER]["name"], told["cacheScope"]) == ("Scripted backend", "private")
        untold = (await bob.modern("server/discover")).result
        assert untold["_meta"][SERVER]["name"] == "jsonrpc-mcp-gateway"
