"""Describe methods by halves: what is late, limited or failed is asked again, and is never "no arguments"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from gateway import jsonrpc
from gateway.backend.http import HttpTransport
from gateway.backend.pace import AT_ONCE, Pace
from gateway.backend.request_parts import RequestParts
from gateway.catalog.build import Builder
from gateway.concurrency.background import EARLIEST
from gateway.discovery.discovery import Discovery
from gateway.errors import CatalogUnavailable
from gateway.http_client.response import Answer, ConnectFailed, DeadlinePassed, Interrupted
from gateway.listing.dialect import NoListing
from gateway.listing.reader import ListingReader
from gateway.model import ANONYMOUS, Caller, Catalog
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from gateway.settings.backend import Backend
from tests.each import each

URL: Final = "http://backend.example/rpc"
SIGNATURE, HELP = "system.methodSignature", "system.methodHelp"
Trouble = Callable[[str, str], "tuple[int, dict[str, str]] | Exception | None"]
CALM: Final[Trouble] = lambda _method, _name: None  # noqa: E731, a table of them follows


class Service:
    """A service with introspection, of ``count`` methods with two arguments. ``trouble`` says what comes in place of an
    answer: a status with headers, or an exception. ``asked`` are the questions about methods."""

    def __init__(self, count: int = 30, dialect: str = "introspection") -> None:
        self.names = [f"ns.m{number}" for number in range(count)]
        self.trouble: Trouble = CALM
        self.asked: list[tuple[str, str]] = []
        self.now = 1000.0
        self.requests = 0
        self.word = "Does it."
        listing = {"dialect": dialect}
        settings = Backend.model_validate({"url": URL, "listing": listing})
        transport = HttpTransport(self, URL)
        self.reader = ListingReader(lambda _: transport, settings, Nothing(), pace=lambda: Pace(self.clock, self.pause))
        self.discovery = Discovery(
            self.reader.fetch_listing, Builder(Params(), ValidatorCache()), CatalogSettings(), self.clock
        )

    def clock(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.now += seconds / AT_ONCE

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        self.requests += 1
        question = jsonrpc.decode(body) if body else {"method": url}
        asked, params = question["method"], question.get("params")
        name = "" if params is None else params["method_name"] if isinstance(params, dict) else params[0]
        if params is not None:
            self.asked.append((asked, name))
        trouble = self.trouble(asked, name)
        if isinstance(trouble, Exception):
            raise trouble
        if trouble is not None:
            return Answer(trouble[0], {"Content-Type": "text/plain", **trouble[1]}, b"no")
        return Answer(
            200, {"Content-Type": "application/json"}, jsonrpc.encode(self._answer(question["id"], asked, name))
        )

    def _answer(self, id: Any, asked: str, name: str) -> dict[str, Any]:
        pages = "\n".join(["== All ==", *(f"{one} count name" for one in self.names)])
        results: dict[str, Any] = {
            "system.listMethods": [*self.names, SIGNATURE, HELP, "system.listMethods"],
            SIGNATURE: [["int", "int", "string"]],
            HELP: f"{name}(count, name)\n\n{self.word}",
            "list_dbs": ["one", "two"],
            "get_schema": {"name": name, "tables": {}},
            "help": f"{name} count ( name )\n\nDoes it." if name else pages,
        }
        return {"jsonrpc": "2.0", "id": id, "result": results[asked]}

    async def close(self) -> None: ...

    async def refreshed(self, after: float = 0.0) -> Catalog:
        """Return what is shown after a refresh, and forget what was asked before."""
        self.now += after
        self.asked.clear()
        await self.discovery.refresh()
        return await self.discovery.catalog(ANONYMOUS)


class Nothing:
    tries = None

    async def request_parts(self, caller: Caller) -> RequestParts:
        return RequestParts()

    async def renew(self, caller: Caller, refused: RequestParts) -> None: ...


def arguments(catalog: Catalog) -> set[tuple[str, ...]]:
    return {tuple(sorted(tool.input_schema.get("properties", ()))) for tool in catalog.tools}


def each_third(status: int, headers: dict[str, str]) -> Trouble:
    count = 0

    def trouble(_method: str, name: str) -> tuple[int, dict[str, str]] | None:
        nonlocal count
        count += bool(name)
        return (status, headers) if name and count % 3 == 0 else None

    return trouble


BAD: Final = {
    "late": DeadlinePassed("late"), "ended": Interrupted("ended"), "busy": (503, {}), "limited": (429, {}),
    "failed": (500, {}), "gateway": (502, {}), "no JSON": (200, {}),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ["introspection", "help"])
@each("bad", BAD)
async def test_at_first_contact_a_method_without_an_answer_is_held_back_by_name_and_only_the_rest_is_asked(
    dialect: str, bad: Any
) -> None:
    service = Service(dialect=dialect)
    lost = {"ns.m20", "ns.m21"}
    service.trouble = lambda _, name: bad if name in lost else None
    first = await service.refreshed()
    assert (len(first.tools), arguments(first)) == (28, {("count", "name")})
    assert {one.name for one in first.quarantined} == lost
    assert first.notes[0].startswith("28 of 30 methods were described within ")
    assert "28 of 30 methods" in service.discovery.problem.cause
    assert service.discovery.seconds_fresh(ANONYMOUS.view) <= 5
    service.trouble = CALM
    whole = await service.refreshed(5)
    assert {name for _, name in service.asked} == lost
    assert (len(whole.tools), arguments(whole), whole.quarantined) == (30, {("count", "name")}, ())
    assert not service.discovery.problem.cause


async def test_no_list_has_fewer_arguments_than_the_whole_one_however_often_questions_fail() -> None:
    service = Service()
    service.trouble = each_third(503, {})
    for _ in range(10):
        shown = await service.refreshed(5)
        assert arguments(shown) <= {("count", "name")}
    assert len(shown.tools) == 30


async def test_where_one_question_in_three_is_answered_something_is_shown_at_first() -> None:
    service, calm = Service(), each_third(503, {})
    service.trouble = lambda method, name: (503, {}) if name and calm(method, name) is None else None
    first = await service.refreshed()
    assert (len(first.tools) > 0, arguments(first)) == (True, {("count", "name")})


async def test_the_last_whole_list_stays_while_a_refresh_is_partial() -> None:
    service = Service()
    before = await service.refreshed()
    service.word, service.trouble = "Does more.", each_third(500, {})
    assert await service.refreshed(400) is before
    assert "until then the last whole list is served" in service.discovery.problem.cause
    service.trouble = CALM
    after = await service.refreshed(5)
    assert all("Does more." in tool.description for tool in after.tools)
    assert len(service.asked) < 60
    assert not service.discovery.problem.cause


async def test_the_rest_is_asked_for_when_the_service_allows_it() -> None:
    service = Service()
    asked: list[str] = []
    service.trouble = lambda _, name: asked.append(name) or ((429, {"Retry-After": "60"}) if len(asked) > 40 else None)
    shown = await service.refreshed()
    assert 0 < len(shown.tools) < 30
    assert len(asked) < 46, "it goes on asking"
    assert 59.9 <= service.discovery.seconds_fresh(ANONYMOUS.view) * EARLIEST <= 61


@pytest.mark.parametrize("trouble", [(500, {}), Interrupted("ended")])
async def test_what_fails_twice_in_the_same_way_while_others_are_answered_is_the_answer(trouble: Any) -> None:
    service = Service()
    service.trouble = lambda method, name: trouble if (method, name) == (HELP, "ns.m3") else None
    assert [one.name for one in (await service.refreshed()).quarantined] == ["ns.m3"]
    whole = await service.refreshed(5)
    assert (len(whole.tools), whole.quarantined) == (30, ())
    assert "system.methodHelp fails each time" in whole.notes[0]
    assert "ns.m3" in whole.notes[0]
    assert await service.refreshed(400) is whole


async def test_what_fails_of_all_methods_is_nobodys_answer() -> None:
    service = Service()
    whole = await service.refreshed()
    service.trouble = lambda _, name: (500, {}) if name else None
    for _ in range(4):
        assert await service.refreshed(100) is whole


async def test_a_service_without_one_kind_of_answer_is_listed_with_the_other() -> None:
    service = Service()
    service.trouble = lambda method, _: (500, {}) if method == SIGNATURE else None
    await service.refreshed()
    assert len((await service.refreshed(5)).tools) == 30


async def test_an_error_is_an_answer_at_once() -> None:
    service = Service()
    service.trouble = lambda method, name: (404, {}) if (method, name) == (HELP, "ns.m3") else None
    assert len((await service.refreshed()).tools) == 30


async def test_other_forms_give_no_half_listing_where_details_are_limited() -> None:
    service = Service(dialect="ovsdb")
    service.trouble = lambda method, name: (503, {}) if (method, name) == ("get_schema", "two") else None
    with pytest.raises(NoListing, match="get_schema two: HTTP 503"):
        await service.reader.fetch_listing(ANONYMOUS)


async def test_a_known_listing_is_checked_by_twenty_methods_in_turn_and_asked_for_whole_where_one_differs() -> None:
    service = Service(300)
    whole = await service.refreshed()
    seen = set()
    for _ in range(3):
        assert await service.refreshed(400) is whole
        assert len(service.asked) <= 40
        seen |= {name for _, name in service.asked}
    assert len(seen) == 60
    service.word = "Does more."
    changed = await service.refreshed(400)
    assert all("Does more." in tool.description for tool in changed.tools)
    service.reader.ask_all()
    await service.refreshed(400)
    assert len(service.asked) >= 600


async def test_a_service_that_was_away_is_asked_for_all() -> None:
    service = Service()
    await service.refreshed()
    service.trouble = lambda _method, _name: ConnectFailed("refused")
    await service.refreshed(400)
    service.trouble, service.word = CALM, "Does more."
    after = await service.refreshed(5)
    assert all("Does more." in tool.description for tool in after.tools)


@each("status, wanted, wait", [(503, "120", 120), (429, "120", 120), (503, "100000", 300)])
async def test_a_listing_keeps_retry_after_as_long_as_the_ttl(status: int, wanted: str, wait: float) -> None:
    service = Service(dialect="auto")
    service.trouble = lambda _method, _name: (status, {"Retry-After": wanted})
    await service.discovery.refresh()
    assert service.requests == 1
    entry = service.discovery._views[ANONYMOUS.view]
    assert wait <= round(entry.retry_at - service.now, 3) <= wait / EARLIEST + 1
    for _ in range(5):
        service.now += wait / 6
        with pytest.raises(CatalogUnavailable):
            await service.discovery.catalog(ANONYMOUS)
    assert service.requests == 1


async def test_while_a_service_is_away_one_question_finds_out_whether_it_still_is() -> None:
    service = Service(dialect="auto")
    service.trouble = lambda _method, _name: (503, {})
    await service.discovery.refresh()
    assert service.requests > 10
    for _ in range(3):
        service.requests = 0
        service.now += 10
        await service.discovery.refresh()
        assert service.requests == 1


async def test_a_service_that_lets_five_questions_a_second_in_is_listed_whole_within_a_minute() -> None:
    service = Service(75)
    level, last = 0.0, service.now

    def trouble(_method: str, name: str) -> tuple[int, dict[str, str]] | None:
        nonlocal level, last
        level, last = max(0.0, level - 5 * (service.now - last)), service.now
        if level + 1 > 6:
            return 503, {}
        level += 1
        return None

    service.trouble = trouble
    began = service.now
    while not (shown := await service.refreshed(5)).tools or shown.quarantined:
        assert service.now < began + 60
    assert (len(shown.tools), service.now < began + 60) == (75, True)


async def test_after_a_slow_answer_there_is_a_pause_as_long_as_it_took() -> None:
    service = Service(20)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    pace = Pace(service.clock, pause)
    for took in (0.05, 0.3):
        asked_at = await pace.take_turn()
        service.now += took
        await pace.note(asked_at, limited=False)
    assert pauses == [pytest.approx(0.3)]
