"""What callers without a token see, and may call."""

from __future__ import annotations

from typing import Final

import pytest

from tests.authorization.stand import (
    CALLS,
    LISTS,
    REST,
    Bearer,
    challenge_of,
    names,
    running,
    stand,
)
from tests.authorization.test_scopes import EVERYTHING, TWO_AND_THREE
from tests.fault.behaviours import result
from tests.protocol.official import MODERN

pytestmark = pytest.mark.usefixtures("both_servers")

LEVELS: Final = (
    {"name": "free", "annotations": {"auth": {"level": "none"}}},
    {"name": "maybe", "annotations": {"auth": {"level": "optional", "scopes": ["more"]}}},
    {"name": "scoped", "annotations": {"auth": {"scopes": ["write"]}}},
    {"name": "strict", "annotations": {"auth": {"level": "required"}}},
    {"name": "unsaid"},
)
ALL_LEVELS: Final = ["free", "maybe", "scoped", "strict", "unsaid"]
DRUPAL: Final = ("backend.listing.dialect=jsonrpc_mcp", "backend.listing.identity=shared")


async def test_a_caller_without_a_token_may_do_nothing_unless_said() -> None:
    async with stand() as it:
        nobody = it.client()
        for surface in LISTS:
            assert (await nobody.list(surface)).status == 401
        for surface in CALLS:
            assert (await nobody.call(surface, "add", TWO_AND_THREE)).status == 401
        for method in ("ping", "initialize", "nonsense"):
            assert (await nobody.legacy(method, {})).status == 401
        assert (await nobody.modern("server/discover")).status == 401
        assert (await nobody.get("/mcp/tools/describe?name=add")).status == 401
        assert it.backend.requests == []


async def test_anonymous_list_shows_all_and_calls_nothing() -> None:
    async with stand("auth.anonymous=list", "auth.scopes.list=[tools.list]", "auth.scopes.call=[tools.call]") as it:
        nobody = it.client()
        for surface in LISTS:
            assert await names(nobody, surface) == EVERYTHING
        assert (await nobody.get("/mcp/tools/describe?name=add")).status == 200
        for surface in CALLS:
            answer = await nobody.call(surface, "add", TWO_AND_THREE)
            assert (answer.status, challenge_of(answer)["scope"]) == (401, "tools.call")
        assert it.backend.calls("add") == 0


async def test_anonymous_open_tools_opens_those_that_the_backend_marks_and_no_others() -> None:
    async with stand(*DRUPAL, "auth.anonymous=open-tools", "auth.scopes.call=[tools.call]") as it:
        it.offers(*LEVELS)
        for name in ALL_LEVELS:
            it.backend.on(name, result(name))
        async with running(it.gateway.settings) as gateway:
            nobody = Bearer(it.session, gateway.port, None)
            for surface in LISTS:
                assert await names(nobody, surface) == ["free", "maybe"]
            for surface in CALLS:
                for name in ALL_LEVELS:
                    answer = await nobody.call(surface, name)
                    assert answer.status == (200 if name in ("free", "maybe") else 401)
            assert challenge_of(await nobody.call(REST, "scoped"))["scope"] == "tools.call write"
            assert {it.backend.calls(name) for name in ("scoped", "strict", "unsaid")} == {0}
            assert {it.backend.calls(name) for name in ("free", "maybe")} == {len(CALLS)}
            assert (await nobody.get("/mcp/tools/describe?name=free")).status == 200
            assert (await nobody.get("/mcp/tools/describe?name=strict")).status == 401


async def test_a_bad_token_is_not_taken_for_none() -> None:
    async with stand("auth.anonymous=list") as it:
        bad = it.client(it.issuer.sign(exp=0))
        for surface in LISTS:
            assert (await bad.list(surface)).status == 401


async def test_the_operators_scopes_close_a_tool_that_the_backend_marks_open() -> None:
    knobs = (*DRUPAL, "auth.anonymous=open-tools", "catalog.tools.free.scopes=[]")
    async with stand(*knobs) as it:
        it.offers(*LEVELS)
        async with running(it.gateway.settings) as gateway:
            nobody = Bearer(it.session, gateway.port, None)
            assert await names(nobody) == ["maybe"]
            assert (await nobody.call(MODERN, "free")).status == 401
