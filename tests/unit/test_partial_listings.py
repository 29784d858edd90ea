"""Describe methods by halves: what is late, limited or failed is asked again, and is never "no arguments"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from gateway import jsonrpc
from gateway.backend.http import HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.catalog.build import Builder
from gateway.concurrency.background import EARLIEST
from gateway.discovery.discovery import Discovery
from gateway.http_client.response import Answer, DeadlinePassed, Interrupted
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
        listing = {"dialect": dialect}
        settings = Backend.model_validate({"url": URL, "listing": listing})
        self.reader = ListingReader(lambda _: HttpTransport(self, URL), settings, Nothing())
        self.discovery = Discovery(
            self.reader.fetch_listing, Builder(Params(), ValidatorCache()), CatalogSettings(), lambda: self.now
        )

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        question = jsonrpc.decode(body)
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
            HELP: f"{name}(count, name)\n\nDoes it.",
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
    lost = {"ns.m3", "ns.m20", "ns.m21"}
    service.trouble = lambda _, name: bad if name in lost else None
    first = await service.refreshed()
    assert (len(first.tools), arguments(first)) == (27, {("count", "name")})
    assert {one.name for one in first.quarantined} == lost
    assert first.notes[0] == "27 of 30 methods were described within 1 s; the rest follows"
    assert "27 of 30 methods" in service.discovery.problem.cause
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
        assert arguments(shown) == {("count", "name")}
    assert len(shown.tools) == 30


async def test_the_last_whole_list_stays_while_a_refresh_is_partial() -> None:
    service = Service()
    before = await service.refreshed()
    service.trouble = each_third(500, {})
    assert await service.refreshed(400) is before
    assert "until then the last whole list is served" in service.discovery.problem.cause
    service.trouble = CALM
    assert (await service.refreshed(5)).digest == before.digest
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
