"""A reload while the backend cannot list: what callers were shown stays, unless the reload hides something of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.catalog import pins
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import CALLS, LISTS, RESOURCE, Stand, challenge_of, names, settings, stand
from tests.fault.behaviours import Body
from tests.fault.methods import ADD, ECHO, VOID
from tests.protocol.talk import Client
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("both_servers")

TWO_AND_THREE = {"a": 2, "b": 3}
UNKNOWN = dict(
    zip(CALLS, [(200, -32602), (200, -32602), (404, "tool_not_found"), (404, -32601), (200, -32601)], strict=True)
)
"""How each surface says that there is no such tool."""


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    """Ann has been shown two tools, and nobody can list any more."""
    async with stand() as it:
        it.listings.shows("ann", ADD, ECHO)
        assert await names(it.of("ann")) == ["add", "echo"]
        it.listings.broken = Body(status=500)
        yield it


async def test_a_larger_page_costs_nobody_a_call(it: Stand) -> None:
    await it.reload("catalog.page_size=7")
    for surface in CALLS:
        assert (await it.of("ann").call(surface, "add", TWO_AND_THREE)).status == 200
    for surface in LISTS:
        assert await names(it.of("ann"), surface) == ["add", "echo"]


async def test_what_a_reload_excludes_is_unknown_at_once(it: Stand) -> None:
    await it.reload("catalog.exclude=[echo]")
    for surface in CALLS:
        assert (await it.of("ann").call(surface, "echo", {"value": 1})).fault == UNKNOWN[surface]
        assert (await it.of("ann").call(surface, "add", TWO_AND_THREE)).status == 200
    for surface in LISTS:
        assert await names(it.of("ann"), surface) == ["add"]
    assert it.shown("echo") == []


async def test_the_scope_that_a_reload_demands_is_missing_at_once(it: Stand) -> None:
    await it.reload("catalog.tools={echo: {scopes: [admin]}}")
    for surface in CALLS:
        answer = await it.of("ann").call(surface, "echo", {"value": 1})
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "admin")
    for surface in LISTS:
        assert await names(it.of("ann"), surface) == ["add"]
    assert it.shown("echo") == []


async def test_what_a_reload_shows_again_needs_no_new_listing(it: Stand) -> None:
    asked = it.backend.calls("rpc.discover")
    await it.reload("catalog.exclude=[echo]")
    assert await names(it.of("ann")) == ["add"]
    await it.reload()
    assert await names(it.of("ann")) == ["add", "echo"]
    assert (await it.of("ann").call("tool", "echo", {"value": 1})).result == 1
    assert it.backend.calls("rpc.discover") == asked


async def test_pins_take_away_what_was_shown(it: Stand, tmp_path: Path) -> None:
    pins.write_pins(tmp_path / "pins.json", ())
    await it.reload(f"catalog.pin={tmp_path / 'pins.json'}")
    assert (await it.of("ann").call("tool", "add", TWO_AND_THREE)).status == 404


async def test_a_refresh_has_each_caller_listed_anew_when_it_comes(it: Stand) -> None:
    asked = it.backend.calls("rpc.discover")
    answer = await Client(it.session, it.gateway.admin_port).send("POST", "/refresh")
    assert (answer.status, answer.body) == (200, b"listed anew\n")
    assert it.backend.calls("rpc.discover") == asked
    it.listings.broken = None
    it.listings.shows("ann", ADD, ECHO, VOID)
    assert await names(it.of("ann")) == ["add", "echo"]
    async with asyncio.timeout(PATIENCE):
        await it.backend.called("rpc.discover", asked + 1)
    await until(lambda: names(it.of("ann")), lambda names: names == ["add", "echo", "void"])


async def test_an_issuer_that_a_reload_takes_away_opens_nothing_and_one_that_it_brings_does(it: Stand) -> None:
    async with ForgedIssuer(RESOURCE) as other:
        it.listings.broken = None
        of_one, of_other = it.of("ann"), it.client(other.sign(sub="ann"))
        for issuer, client, stranger in ((other, of_other, of_one), (it.issuer, of_one, of_other)):
            await it.gateway.reload(settings(it.backend.url, [issuer]))
            for surface in CALLS:
                assert (await client.call(surface, "add", TWO_AND_THREE)).status == 200
                assert (await stranger.call(surface, "add", TWO_AND_THREE)).status == 401
