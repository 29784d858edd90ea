"""The language of a caller's own list: what Accept-Language asks for, unless the operator has chosen one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.auth.access import MOST_LANGUAGES, MOST_LANGUAGES_OF_CALLER, preferred_language
from gateway.discovery.shared_listing import backend_digest
from tests.authorization.stand import LISTS, MODERN, Bearer, Stand, settings, stand, tools_in
from tests.each import each
from tests.fault.behaviours import Exchange, result
from tests.fault.methods import openrpc
from tests.tables import each_row
from tests.waiting import until

LIST: Final = "rpc.discover"
KNOB: Final = "backend.listing.language=fr"
GERMAN: Final = "de-DE,de;q=0.9,en;q=0.8"
ENGLISH: Final = "en-US,en;q=0.5"


class Translated:
    """A listing in the language that it is asked in; with ``languages`` in these alone, and else in the last one."""

    def __init__(self, *languages: str) -> None:
        self.languages = languages
        self.asked: list[str | None] = []

    async def play(self, exchange: Exchange) -> None:
        asked = exchange.request.headers.getall("Accept-Language", [])
        assert len(asked) < 2
        self.asked.append(asked[0] if asked else None)
        text = asked[0] if asked else "none"
        if self.languages and text not in self.languages:
            text = self.languages[-1]
        bearer = exchange.request.headers["Authorization"]
        method = {"name": "add", "description": f"In {text}", "params": [], "result": {"name": "r", "schema": {}}}
        await result(openrpc(()) | {"methods": [method, {**method, "name": f"of{abs(hash(bearer))}"}]}).play(exchange)


@asynccontextmanager
async def translating(*knobs: str, languages: tuple[str, ...] = ()) -> AsyncIterator[tuple[Stand, Translated]]:
    async with stand(*knobs) as it:
        listing = Translated(*languages)
        it.backend.on(LIST, listing)
        yield it, listing


async def text(client: Bearer, language: str | None, surface: str = MODERN) -> str:
    """The language of the list that comes to a client that asks in this one."""
    client.language = language
    return str(tools_in(await client.list(surface))["add"]["description"]).removeprefix("In ")


ORDERS: Final[dict[str, list[tuple[str | None, str]]]] = {
    "de then en": [(GERMAN, "de-de"), (ENGLISH, "en-us"), (GERMAN, "de-de")],
    "en then de": [(ENGLISH, "en-us"), (GERMAN, "de-de"), (ENGLISH, "en-us")],
    "* (Node)": [("*", "none"), (GERMAN, "de-de"), ("*", "none")],
    "none": [(None, "none"), (ENGLISH, "en-us"), (None, "none")],
}


@each("knob", ["unset", "set"])
@each("order", [*ORDERS])
async def test_a_list_is_in_the_language_of_each_request_unless_the_knob_says_which(order: str, knob: str) -> None:
    for surface in LISTS:
        async with translating(*([KNOB] if knob == "set" else [])) as (it, listing):
            ann = it.of("ann")
            for language, expected in ORDERS[order]:
                assert await text(ann, language, surface) == ("fr" if knob == "set" else expected)
            assert len(listing.asked) == (1 if knob == "set" else 2), "one listing for each language"


@each_row
def test_a_header_is_read_up_to_its_first_acceptable_language(header: str, language: str) -> None:
    assert preferred_language(header) == language


async def test_equal_lists_in_several_languages_stay_fresh_together() -> None:
    async with translating("catalog.max_stale=1h", languages=("any",)) as (it, listing):
        ann, views = it.of("ann"), it.gateway.services[""].discovery._views
        for language in (GERMAN, ENGLISH, "*", GERMAN, ENGLISH):
            assert await text(ann, language) == "any"
        assert listing.asked == ["de-de", "en-us", None]
        german, english, none = (next(one for view, one in views.items() if view.language == language and view.subject)
                                 for language in ("de-de", "en-us", ""))  # fmt: skip

        async def refreshed_in(language: str) -> None:
            asked = len(listing.asked)
            assert await text(ann, language) == "any"
            await until(lambda: len(listing.asked) > asked and german.refresh_task is english.refresh_task is None)

        none.refreshed_at -= 3600  # of a list that is too old, only the service can say that it is still good
        before = none.fresh_until
        english.expire()
        await refreshed_in(ENGLISH)
        assert listing.asked[3:] == ["en-us"]
        assert german.fresh_until == english.fresh_until > before == none.fresh_until
        german.expire()  # as a notice of another replica or an operator's refresh does
        english.expire()
        await refreshed_in(ENGLISH)
        assert german.fresh_until == 0
        await refreshed_in(GERMAN)
        assert listing.asked[4:] == ["en-us", "de-de"]


async def test_lists_that_differ_are_kept_apart_when_they_are_refreshed() -> None:
    async with translating() as (it, listing):
        ann, entries = it.of("ann"), it.gateway.services[""].discovery._views
        for number in range(1, 4):
            for language, expected in ((GERMAN, "de-de"), (ENGLISH, "en-us"), (None, "none")):
                assert await text(ann, language) == expected
            await until(lambda: all(entry.refresh_task is None for entry in entries.values()))
            assert sorted(map(str, listing.asked)) == sorted(["de-de", "en-us", "None"] * number)
            for entry in entries.values():
                entry.expire()


async def test_a_caller_with_a_thousand_languages_costs_four_listings_and_leaves_four_to_others() -> None:
    async with translating() as (it, listing):
        eve, bob = it.of("eve"), it.of("bob")
        names = [f"x{chr(97 + number // 26 % 26)}{chr(97 + number % 26)}-{number}" for number in range(1000)]
        for name in names[:32]:
            await text(eve, name)
        for part in range(0, 1000, 100):
            await asyncio.gather(*(text(it.of("eve"), name) for name in names[part : part + 100]))
        taken = names[:MOST_LANGUAGES_OF_CALLER]
        assert listing.asked == taken
        assert len(it.gateway.services[""].discovery._views) <= MOST_LANGUAGES + 1
        for language in ("de", "en", "fr", "it"):
            assert await text(bob, language) == language
        assert await text(it.of("ann"), "es") == names[0], "beyond eight, the language that came first"
        assert await text(bob, "*") == "none"
        assert await text(bob, names[3]) == names[3]
        assert listing.asked[len(taken) :] == ["de", "en", "fr", "it", names[0], None, names[3]]


async def test_a_language_never_leads_to_another_callers_list() -> None:
    async with translating() as (it, _):
        clients = [it.of(subject) for subject in ("ann", "bob", "eve")]
        seen: dict[str, set[str]] = {}
        for language in (GERMAN, ENGLISH, "*", GERMAN):
            for client in clients:
                client.language = language
                (own,) = set(tools_in(await client.list(MODERN))) - {"add"}
                seen.setdefault(str(client.token), set()).add(own)
        assert all(len(names) == 1 for names in seen.values())
        assert len(set.union(*seen.values())) == 3


async def test_each_language_is_counted_as_a_listing_of_the_caller() -> None:
    async with translating("limits.discovery=3/minute") as (it, listing):
        ann = it.of("ann")
        answers = []
        for language in ("de", "en", "fr", "es"):
            ann.language = language
            answers.append((await ann.call("jsonrpc", "add")).status)
        assert answers[-1] == 429
        assert listing.asked == ["de", "en", "fr"]


async def test_after_a_reload_each_list_is_still_in_its_language() -> None:
    async with translating() as (it, listing):
        ann = it.of("ann")
        assert [await text(ann, one) for one in (GERMAN, ENGLISH)] == ["de-de", "en-us"]
        await it.reload("catalog.page_size=7")
        assert [await text(ann, one) for one in (ENGLISH, None, GERMAN)] == ["en-us", "none", "de-de"]
        assert listing.asked == ["de-de", "en-us", None]


def test_replicas_share_a_listing_only_with_those_of_the_same_language() -> None:
    url = "http://127.0.0.1:1/rpc"
    made = [settings(url, [], "auth.mode=off", *knobs) for knobs in ([], [KNOB], ["backend.listing.language=de"])]
    assert len({backend_digest(one.by_mount[""]) for one in made}) == len(made)
