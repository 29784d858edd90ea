"""Tool search finds only what its caller may call, and calls it with the found tool's own scopes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.authorization.stand import Bearer, bearer_of, challenge_of, stand, subject_of
from tests.each import each
from tests.fault.behaviours import Exchange, result
from tests.fault.methods import ADD, ECHO, openrpc
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import Answer

pytestmark = pytest.mark.usefixtures("both_servers")

KNOBS = ("catalog.search=true", "catalog.tools={add: {scopes: [sums]}}")
SURFACES = (MODERN, LEGACY[0], "rest")


async def found(client: Bearer, surface: str) -> list[str]:
    answer = await client.call(surface, "search_tools", {"query": "add echo method"})
    assert answer.status == 200, answer
    result: Any = answer.json["result"]
    if surface != "rest":
        assert not result.get("isError"), result
        result = result["structuredContent"]
    return sorted(tool["name"] for tool in result["tools"])


async def add(client: Bearer, surface: str) -> Answer:
    return await client.call(surface, "call_tool", {"name": "add", "arguments": {"a": 1, "b": 2}})


@each("surface", SURFACES)
async def test_what_a_caller_may_not_call_is_not_found(surface: str) -> None:
    async with stand(*KNOBS) as it:
        assert "add" in await found(it.of("ann", "sums"), surface)
        unable = await found(it.of("bob", "other"), surface)
        assert "add" not in unable
        assert "echo" in unable


class TitledByCaller:
    """Lists the same methods to all, each time under a title that names the caller."""

    async def play(self, exchange: Exchange) -> None:
        document = openrpc([ADD, ECHO])
        document["info"]["title"] = f"Books of {subject_of(bearer_of(exchange.request) or '')}"
        await result(document).play(exchange)


async def test_the_title_of_a_listing_that_is_one_callers_own_is_told_to_no_other() -> None:
    async with stand(*KNOBS) as it:
        it.listings.broken = TitledByCaller()
        for subject in ("ann", "bob"):
            listed = await it.of(subject, "other").list(MODERN)
            assert f"Books of {subject}" in str(listed.result["tools"])


@each("surface", SURFACES)
async def test_a_call_of_what_was_found_takes_its_scopes(surface: str) -> None:
    async with stand(*KNOBS) as it:
        refused = await add(it.of("bob", "other"), surface)
        assert refused.status == 403
        assert challenge_of(refused)["scope"] == "sums"
        assert [sent for sent in it.backend.requests if sent.method == "add"] == []
        assert (await add(it.of("ann", "sums"), surface)).status == 200
        assert len([sent for sent in it.backend.requests if sent.method == "add"]) == 1


@each("surface", SURFACES)
async def test_a_search_takes_the_scopes_of_a_listing_besides_those_of_a_call(surface: str) -> None:
    scopes = ("auth.scopes.list=[look]", "auth.scopes.call=[use]")
    async with stand(*KNOBS, *scopes) as it:
        for held in ("use", "look"):
            refused = await it.of("bob", held).call(surface, "search_tools", {"query": "echo"})
            assert (refused.status, challenge_of(refused)["scope"]) == (403, "look use")
        assert "echo" in await found(it.of("ann", "use look"), surface)
        assert (
            await it.of("bob", "use").call(surface, "call_tool", {"name": "echo", "arguments": {"value": 1}})
        ).status == 200


@each("surface", [LEGACY[0], "rest"])
async def test_an_unknown_tool_is_told_the_nearest_of_those_that_its_caller_may_see(surface: str) -> None:
    knobs = ("catalog.tools={add: {scopes: [sums]}}", "auth.scopes.list=[look]")
    async with stand(*knobs) as it:
        for scopes, message in (
            ("sums look", "Unknown tool: ad. Did you mean add?"),
            ("look", "Unknown tool: ad"),  # add takes another scope
            ("sums", "Unknown tool: ad"),  # may call it, and not list it
        ):
            answer = await it.of("ann", scopes).call(surface, "ad", {})
            assert answer.json["error"]["message"] == message, scopes
