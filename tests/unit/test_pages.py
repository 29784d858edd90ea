"""Pages of a catalog: bounded by count and by bytes, continued by name, serialized once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from gateway import jsonrpc
from gateway.catalog.pages import MAX_PAGE_BYTES, PageCache
from gateway.concurrency.turns import SLICE
from gateway.model import Binding, Catalog, Structure, Tool
from tests.each import each


class Names:
    """Shows the name and the description, and counts how often it is asked."""

    def __init__(self, key: str = "names", slow_at: int = 0) -> None:
        self.key = key
        self.shown = 0
        self.slow_at = slow_at

    def project(self, tool: Tool) -> dict[str, Any]:
        self.shown += 1
        if self.shown == self.slow_at:
            ends = time.monotonic() + 2 * SLICE
            while time.monotonic() < ends:
                pass
        return {"name": tool.name, "description": tool.description}


def catalog(*names: str, description: str = "") -> Catalog:
    tools = tuple(Tool(name, name, description, {}, Binding(name, Structure.BY_NAME)) for name in sorted(names))
    return Catalog(tools, "static")


def names_of(tools: jsonrpc.Raw) -> list[str]:
    return [tool["name"] for tool in jsonrpc.decode(bytes(tools))]


async def walk(pages: PageCache, listed: Catalog, size: int) -> list[list[str]]:
    found, after = [], None
    while True:
        page = await pages.get_page(listed, Names(), after, size)
        found.append(names_of(page.tools))
        if page.last is None:
            return found
        assert page.last == found[-1][-1]
        after = page.last


@each(("size", "lengths"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (4, [4, 1]), (500, [5])])
async def test_pages_hold_at_most_so_many_tools_and_together_all_of_them(size: int, lengths: list[int]) -> None:
    found = await walk(PageCache(), catalog(*"abcde"), size)
    assert list(map(len, found)) == lengths
    assert [name for page in found for name in page] == list("abcde")


async def test_an_empty_catalog_has_one_empty_page() -> None:
    page = await PageCache().get_page(catalog(), Names(), None, 10)
    assert (bytes(page.tools), page.last) == (b"[]", None)


async def test_a_page_is_bounded_in_bytes_as_well() -> None:
    big = catalog(*"abcdef", description="x" * (MAX_PAGE_BYTES * 2 // 5))
    found = await walk(PageCache(), big, 500)
    assert list(map(len, found)) == [2, 2, 2]


async def test_a_tool_larger_than_a_page_has_one_of_its_own() -> None:
    found = await walk(PageCache(), catalog(*"abc", description="x" * (MAX_PAGE_BYTES + 1)), 500)
    assert found == [["a"], ["b"], ["c"]]


@each(
    ("after", "rest"),
    [
        ("b", ["c", "d"]),
        ("bb", ["c", "d"]),
        ("", ["a", "b", "c", "d"]),
        ("d", []),
        ("z", []),
        ("B", ["a", "b", "c", "d"]),
    ],
)
async def test_a_page_goes_on_behind_a_name_whether_it_is_still_there_or_not(after: str, rest: list[str]) -> None:
    page = await PageCache().get_page(catalog(*"abcd"), Names(), after, 10)
    assert names_of(page.tools) == rest
    assert page.last is None


async def test_a_page_is_serialized_once_for_each_catalog_projector_and_size() -> None:
    pages, names = PageCache(), Names()
    first = await pages.get_page(catalog(*"ab"), names, None, 10)
    assert await pages.get_page(catalog(*"ab"), names, None, 10) is first
    assert names.shown == 2
    assert await pages.get_page(catalog(*"ab"), Names("other"), None, 10) is not first
    assert await pages.get_page(catalog(*"ab"), names, None, 1) is not first
    assert await pages.get_page(catalog(*"ab", description="changed"), names, None, 10) is not first


async def test_names_that_lead_to_the_same_place_share_a_page() -> None:
    pages = PageCache()
    assert await pages.get_page(catalog(*"abc"), Names(), "a", 10) is await pages.get_page(
        catalog(*"abc"), Names(), "aa", 10
    )


async def test_prepared_pages_cost_the_first_reader_nothing() -> None:
    pages, names = PageCache(), Names()
    pages.prepare_first_pages(catalog(*"abc"), (names,), 2)
    shown = names.shown
    await pages.get_page(catalog(*"abc"), names, None, 2)
    assert names.shown == shown == 2


async def test_the_page_of_a_large_catalog_is_made_when_it_is_asked_for_and_others_have_their_turn() -> None:
    pages, names, listed = PageCache(), Names(slow_at=100), catalog(*(f"t{number:04}" for number in range(5000)))
    pages.prepare_first_pages(listed, (names,), 5000)
    assert names.shown == 0
    shown_at_a_turn: list[int] = []
    task = asyncio.create_task(pages.get_page(listed, names, None, 5000))
    while not task.done():
        await asyncio.sleep(0)
        shown_at_a_turn.append(names.shown)
    assert len(names_of((await task).tools)) == 5000
    assert any(0 < shown < 5000 for shown in shown_at_a_turn)


@each(("size", "fits"), [(150, True), (800, True), (801, False), (1200, False)])
async def test_the_cache_is_bounded_and_a_page_that_does_not_fit_is_still_served(size: int, fits: bool) -> None:
    """A page counts with 200 bytes besides its tools."""
    bare = len((await PageCache().get_page(catalog("a", description="x"), Names(), None, 10)).tools) - 1
    pages, names = PageCache(max_bytes=1000), Names()
    listed = catalog("a", description="x" * (size - bare))
    page = await pages.get_page(listed, names, None, 10)
    assert (len(page.tools), names_of(page.tools)) == (size, ["a"])
    again = await pages.get_page(listed, names, None, 10)
    assert again == page
    assert (again is page) == fits


async def test_the_least_used_page_makes_room() -> None:
    pages, names = PageCache(max_bytes=1000), Names()
    listed = [catalog("a", description=str(n) * 300) for n in range(3)]
    for one in listed:
        await pages.get_page(one, names, None, 10)
    await pages.get_page(listed[2], names, None, 10)
    assert names.shown == 3
    await pages.get_page(listed[0], names, None, 10)
    assert names.shown == 4
