"""A reload while the backend cannot list: what callers were shown stays, unless the reload hides something of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.catalog import pins
from tests.authorization.stand import CALLS, LISTS, Stand, names, stand
from tests.fault.behaviours import Body
from tests.fault.methods import ADD, ECHO, VOID
from tests.protocol.talk import Client

TWO_AND_THREE = {"a": 2, "b": 3}


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


@pytest.mark.parametrize("knob", ["catalog.exclude=[echo]", "catalog.tools={echo: {scopes: [admin]}}"])
async def test_what_a_reload_hides_is_gone_at_once(it: Stand, knob: str) -> None:
    await it.reload(knob)
    for surface in CALLS:
        assert (await it.of("ann").call(surface, "echo", {"value": 1})).status == 503
    assert it.shown("echo") == []


@pytest.mark.parametrize(("mode", "status"), [("hold", 503), ("report", 200)])
async def test_pins_that_hold_tools_back_take_what_was_shown_away_and_others_do_not(
    it: Stand, tmp_path: Path, mode: str, status: int
) -> None:
    shared = it.gateway.settings
    pins.write(tmp_path / "pins.json", ())
    await it.reload(f"catalog.pin={tmp_path / 'pins.json'}", f"catalog.pin_mode={mode}")
    assert it.gateway.settings is not shared
    assert (await it.of("ann").call("tool", "add", TWO_AND_THREE)).status == status


async def test_a_refresh_has_each_caller_listed_anew_when_it_comes(it: Stand) -> None:
    asked = it.backend.calls("rpc.discover")
    answer = await Client(it.session, it.gateway.admin_port).send("POST", "/refresh")
    assert (answer.status, answer.body) == (200, b"ok\n")
    assert it.backend.calls("rpc.discover") == asked
    it.listings.broken = None
    it.listings.shows("ann", ADD, ECHO, VOID)
    assert await names(it.of("ann")) == ["add", "echo"]
    async with asyncio.timeout(10):
        await it.backend.called("rpc.discover", asked + 1)
        while await names(it.of("ann")) != ["add", "echo", "void"]:  # noqa: ASYNC110, the listing is on its way
            await asyncio.sleep(0.01)
