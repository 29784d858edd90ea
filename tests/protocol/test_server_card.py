"""Server cards and their catalog, by the rules that SEP-2127 publishes: public, and no more than is meant."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from gateway.config.source import ConfigError, load_settings
from gateway.config.strict_yaml import read_yaml
from tests.authorization.stand import PUBLIC, RESOURCE, stand
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import METHODS, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.sites import several
from tests.protocol.talk import SERVER, Client

pytestmark = pytest.mark.usefixtures("both_servers")


CARD: Final = "/mcp/server-card"
CATALOG: Final = "/.well-known/ai-catalog.json"
ON: Final = "mcp.server.card=true"
ICON: Final = {"src": "https://books.example.com/icon.png", "sizes": ["48x48"]}
SERVER_KNOBS: Final = {
    "name": "Books & more",
    "instructions": "Search before you order.",
    "about": {"title": "Books", "description": "Search and order books.", "icons": [ICON]},
    "card": True,
}
RULES: Final = read_yaml(Path(__file__).with_name("server_card.yaml").read_text(), "server_card.yaml")
CARD_RULES: Final = RULES["card"]
CATALOG_RULES: Final = RULES["catalog"]


async def fetched(client: Client, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    async with client.request("GET", path, None, headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def document(client: Client, path: str, rules: dict[str, Any]) -> dict[str, Any]:
    status, headers, body = await fetched(client, path)
    assert status == 200, body
    expected = "application/mcp-server-card+json" if rules is CARD_RULES else "application/ai-catalog+json"
    assert headers["Content-Type"] == expected
    found: dict[str, Any] = json.loads(body)
    jsonschema.validate(found, rules, jsonschema.Draft202012Validator)
    return found


async def test_there_is_neither_card_nor_catalog_until_the_operator_wants_one() -> None:
    async with stand() as it:
        for path in (CARD, CATALOG):
            assert (await fetched(it.client(), path))[0] == 404


async def test_a_stranger_reads_the_card_of_a_service_that_wants_tokens() -> None:
    async with stand(f"mcp.server={json.dumps(SERVER_KNOBS)}") as it:
        assert await document(it.client(), CARD, CARD_RULES) == {
            "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
            "name": "com.example.gw/Books-more",
            "title": "Books",
            "version": (await document(it.client(), CARD, CARD_RULES))["version"],
            "description": "Search and order books.",
            "icons": [ICON],
            "remotes": [{
                "type": "streamable-http", "url": RESOURCE,
                "supportedProtocolVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
            }],
        }  # fmt: skip
        entry = {
            "identifier": "urn:air:gw.example.com:mcp:Books-more",
            "type": "application/mcp-server-card+json",
            "url": f"{RESOURCE}/server-card",
        }
        assert await document(it.client(), CATALOG, CATALOG_RULES) == {"specVersion": "1.0", "entries": [entry]}


async def test_the_card_agrees_with_what_a_client_is_told(connect: Connect, backend: ScriptedBackend) -> None:
    info = {"title": "Bookshop", "version": "3.1", "description": "Books", "contact": {"url": "http://10.0.0.7/"}}
    backend.on("rpc.discover", result({**openrpc(METHODS), "info": info}))
    client = await connect(ON, f"server.public_url={PUBLIC}")
    await client.modern("tools/list")
    told = (await client.modern("server/discover")).result
    card = await document(client, CARD, CARD_RULES)
    assert card["version"] == told["_meta"][SERVER]["version"] == "3.1"
    assert set(told["supportedVersions"]) <= set(card["remotes"][0]["supportedProtocolVersions"])
    assert "10.0.0.7" not in json.dumps(card), "an address that only the service's listing names"


async def test_nothing_that_a_caller_sees_or_the_gateway_hides_is_in_it() -> None:
    """No tool, no address within, no secret; and of a listing of each caller's own not even the version."""
    async with stand(ON) as it:
        ann = it.of("ann")
        tools = [tool["name"] for tool in (await ann.list("2026-07-28")).result["tools"]]
        assert tools
        _, _, body = await fetched(it.client(), CARD)
        text = body.decode()
        assert not [word for word in (*tools, "127.0.0.1", "localhost", "Scripted") if word in text]


async def test_several_services_have_a_card_each_and_one_catalog() -> None:
    async with several(ON, "mcp.server.name=crm") as it:
        assert (await fetched(it.crm.client, CARD))[0] == 404
        assert (await fetched(it.root, CARD))[0] == 404
        card = await document(it.shop.client, CARD, CARD_RULES)
        assert card["name"] == "net.example.gw/shop"
        (entry,) = (await document(it.root, CATALOG, CATALOG_RULES))["entries"]
        assert (
            entry["url"] == f"{card['remotes'][0]['url']}/server-card" == "https://gw.example.net/shop/mcp/server-card"
        )


async def test_any_page_may_read_it_and_keep_it_for_an_hour() -> None:
    async with stand(ON) as it:
        for path in (CARD, CATALOG):
            status, headers, _ = await fetched(it.client(), path, Origin="https://anywhere.example")
            assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
            assert headers["Access-Control-Expose-Headers"] == "ETag"
            assert headers["Cache-Control"] == "public, max-age=3600"
            asked = {"Origin": "https://anywhere.example", "Access-Control-Request-Method": "GET"}
            async with it.client().request("OPTIONS", path, None, asked) as answer:
                assert answer.status == 204
                assert "If-None-Match" in answer.headers["Access-Control-Allow-Headers"]
            async with it.client().request("POST", path, None, {}) as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_who_has_it_already_is_not_sent_it_again() -> None:
    async with stand(ON) as it:
        _, headers, body = await fetched(it.client(), CARD)
        tag = headers["ETag"]
        assert re.fullmatch(r'"[0-9a-f]{32}"', tag), "a strong one"
        for known in (tag, f'"other", {tag}', "*"):
            status, again, empty = await fetched(it.client(), CARD, **{"If-None-Match": known})
            assert (status, again["ETag"], empty) == (304, tag, b"")
            assert "Content-Length" not in again
        assert (await fetched(it.client(), CARD, **{"If-None-Match": '"other"'}))[2] == body
        async with it.client().request("HEAD", CARD, None, {}) as answer:
            assert (answer.status, answer.headers["ETag"], await answer.read()) == (200, tag, b"")


@each(("url", "name"), [("http://[::1]:8080", "-1/-"), (f"{PUBLIC}/deep", "com.example.gw/-")])
async def test_names_keep_to_the_pattern_whatever_the_address(connect: Connect, url: str, name: str) -> None:
    card = await document(await connect(ON, "mcp.server.name=///", f"server.public_url={url}"), CARD, CARD_RULES)
    assert card["name"] == name


@pytest.mark.own_server("no gateway is started")
def test_a_card_without_a_public_address_is_a_fault() -> None:
    knobs = ("backend.url=http://127.0.0.1:1/jsonrpc", "auth.mode=off", ON)
    with pytest.raises(
        ConfigError, match=r"^server\.public_url: is required, because mcp\.server\.card: true publishes it"
    ):
        load_settings(None, knobs, environ={})
