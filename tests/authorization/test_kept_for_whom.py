"""What is kept of listings, and for whom (security.md CP1 to CP7): each over HTTP, with what the service was asked."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from gateway.discovery import views
from tests.authorization.stand import LISTS, METADATA, Bearer, challenge_of, names, running, settings, stand, tools_in
from tests.authorization.world import a_world, caller
from tests.each import each
from tests.fault.behaviours import Behaviour, Body, Exchange
from tests.fault.methods import ADD, ECHO, FAIL
from tests.protocol.official import MODERN
from tests.waiting import PATIENCE

LIST: Final = "rpc.discover"
CALLERS: Final = 200


class Gate:
    """A listing that waits until it is opened."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.asked = asyncio.Event()
        self.open = asyncio.Event()

    async def play(self, exchange: Exchange) -> None:
        self.asked.set()
        if await exchange.wait(self.open):
            await self._behaviour.play(exchange)


@each("surface", LISTS)
async def test_what_an_administrator_lists_is_shown_to_nobody_else(surface: str) -> None:
    """CP1: whoever comes first. The service is asked with each caller's own token, once."""
    async with stand() as it:
        it.listings.shows("admin", ADD, ECHO, FAIL)
        it.listings.shows("bob", ECHO)
        admin, bob = it.of("admin"), it.of("bob")
        for _ in range(2):
            assert await names(admin, surface) == ["add", "echo", "fail"]
            assert await names(bob, surface) == ["echo"]
        assert it.shown(LIST) == [admin.token, bob.token]


@each("surface", LISTS)
async def test_who_is_refused_fills_nothing(surface: str) -> None:
    """CP2: the token is verified first. What a forged one would have been listed is asked for by nobody."""
    async with stand() as it:
        it.backend.requests.clear()
        forged = it.client(it.issuer.sign(sub="ann")[:-4] + "AAAA")
        for stranger in (it.client(), forged, it.client("nonsense"), it.of("ann", aud="https://elsewhere.example.com")):
            answer = await stranger.list(surface)
            assert answer.status == 401
            assert challenge_of(answer)["resource_metadata"] == METADATA
        assert it.backend.requests == []
        ann = it.of("ann")
        assert await names(ann, surface) == ["add", "echo", "fail", "void"]
        assert it.shown(LIST) == [ann.token]


@each("status", [401, 403, 500])
@each("surface", LISTS)
async def test_what_one_caller_was_refused_is_refused_to_nobody_else(surface: str, status: int) -> None:
    """CP3: nor is it kept for long. An empty listing of one caller is that caller's."""
    async with stand() as it:
        it.listings.shows("eve")
        if status == 500:
            it.listings.broken = Body(status=500)
        else:
            it.listings.refused["ann"] = status
        assert (await it.of("ann").list(surface)).status == (503 if status == 500 else status)
        it.listings.broken = None
        eve, bob = it.of("eve"), it.of("bob")
        assert await names(eve, surface) == []
        assert await names(bob, surface) == ["add", "echo", "fail", "void"]
        assert it.shown(LIST)[-2:] == [eve.token, bob.token]


VARIATIONS: Final = [
    {"X-Forwarded-Host": "evil.example.com"},
    {"X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/evil"},
    {"X-Original-URL": "/evil"},
    {"Accept-Language": "xx-evil"},
    {"Cookie": "evil=1", "Referer": "https://evil.example.com/"},
    {"X-Forwarded-For": "evil", "Forwarded": "host=evil.example.com"},
    {"User-Agent": "evil"},
]


@each("headers", VARIATIONS)
@each("query", ["", "?x=evil", "?names=mcp&cachebuster=evil"])
async def test_no_header_and_no_query_of_one_caller_shows_in_what_another_gets(
    headers: dict[str, str], query: str
) -> None:
    """CP4: a shared listing is asked for in nobody's words, and what is kept of it has none of them."""
    async with stand("backend.listing.identity=shared") as it:
        asked = len(it.shown(LIST))
        first = await it.of("eve").get(f"/mcp/tools/list{query}", **headers)
        second = await it.of("bob").get("/mcp/tools/list")
        assert first.status == second.status == 200
        assert "evil" not in second.body.decode() + repr(second.headers)
        assert first.json["tools"] == second.json["tools"]
        document = await it.client().send("GET", "/.well-known/oauth-protected-resource/mcp" + query, None, headers)
        assert "evil" not in document.body.decode() + repr(document.headers)
        assert len(it.shown(LIST)) == asked
        assert "evil" not in repr([sent.headers for sent in it.backend.requests])


@each("surface", LISTS)
async def test_a_rush_for_one_view_costs_one_listing_whoever_leaves(surface: str) -> None:
    """CP5: with who asked first among those who leave."""
    async with stand() as it:
        gate = Gate(it.listings)
        it.backend.on(LIST, gate)
        token = it.issuer.sign(sub="ann")
        rush = [asyncio.create_task(Bearer(it.session, it.gateway.port, token).list(surface)) for _ in range(CALLERS)]
        async with asyncio.timeout(PATIENCE):
            await gate.asked.wait()
            for left in rush[::2]:
                left.cancel()
            gate.open.set()
            answers = await asyncio.gather(*rush, return_exceptions=True)
        served = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert len(served) >= CALLERS // 2
        assert {answer.status for answer in served} == {200}
        assert {tuple(tools_in(answer)) for answer in served} == {("add", "echo", "fail", "void")}
        assert it.shown(LIST) == [token]


@each("identity", ["caller", "shared"])
async def test_a_client_is_told_who_may_keep_a_listing_and_no_longer_than_it_is_fresh_here(identity: str) -> None:
    """CP6: cacheScope and ttlMs. Where tokens are asked for, it is the caller's alone; HTTP caches keep nothing."""
    async with stand(f"backend.listing.identity={identity}", "catalog.ttl=60s") as it:
        ann = it.of("ann")
        asked = [await ann.list(MODERN) for _ in range(2)]
        assert [answer.result["cacheScope"] for answer in asked] == ["private", "private"]
        assert 0 < asked[1].result["ttlMs"] <= asked[0].result["ttlMs"] <= 60_000
        assert {answer.headers["Cache-Control"] for answer in asked} == {"no-store"}
        assert len(it.shown(LIST)) == 1
        async with running(settings(it.backend.url, [], "auth.mode=off")) as gateway:
            assert (await Bearer(it.session, gateway.port, None).list(MODERN)).result["cacheScope"] == "public"


async def test_a_million_callers_leave_a_bounded_number_of_views() -> None:
    """CP7: a few more than are kept stand for the million. Each is shown its own, one that was let go is asked for
    again, and nobody sees another's."""
    async with a_world() as world:
        everybody = [caller(f"token-{number}", f"caller-{number}") for number in range(views.MAX_VIEWS + 500)]
        for number, one in enumerate(everybody):
            world.listed[f"token-{number}"] = (f"tool-{number % 7}",)
            assert await world.names(one) == (f"tool-{number % 7}",)
        assert len(world.asked) == len(everybody)
        kept = re.search(r"<Discovery (\d+) views", repr(world.discovery))
        assert kept is not None
        assert int(kept[1]) <= views.MAX_VIEWS
        for number in (0, 1, len(everybody) - 1):
            assert await world.names(everybody[number]) == (f"tool-{number % 7}",)
