"""Listings in pages, of Drupal's jsonrpc_mcp module: half a list never passes for the whole."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gateway.listing.dialect import NoListing
from gateway.listing.jsonrpc_mcp import MAX_PAGES
from gateway.listing.reader import probe_dialects
from tests.contract.test_dialects import Answers, fetched
from tests.tables import each_row

FIRST: Final = "GET /api/mcp/tools/list"
_END: Final = object()


def page(name: str, cursor: Any = _END) -> dict[str, Any]:
    entry = {"tools": [{"name": name, "inputSchema": {}}]}
    return entry if cursor is _END else entry | {"nextCursor": cursor}


@each_row
async def test_a_list_that_breaks_off_is_no_list_and_the_error_names_the_page(
    answers: dict[str, Any], said: str
) -> None:
    with pytest.raises(NoListing, match=said.replace("[", r"\[")):
        await fetched("jsonrpc_mcp", answers)


async def test_a_last_page_may_be_empty() -> None:
    listing = await fetched("jsonrpc_mcp", {FIRST: page("a", "2"), f"{FIRST}?cursor=2": {"tools": []}})
    assert [method.name for method in listing.methods] == ["a"]


async def test_pages_without_end_are_no_list() -> None:
    pages = {f"{FIRST}?cursor={number}": page(f"t{number}", str(number + 1)) for number in range(MAX_PAGES + 5)}
    with pytest.raises(NoListing, match=f"page {MAX_PAGES}: JSON, but with more than {MAX_PAGES} pages"):
        await fetched("jsonrpc_mcp", pages | {FIRST: page("a", "0")})


async def test_as_many_pages_as_are_read_are_a_list() -> None:
    last = MAX_PAGES - 2
    pages = {f"{FIRST}?cursor={number}": page(f"t{number}", str(number + 1)) for number in range(last)}
    pages |= {FIRST: page("a", "0"), f"{FIRST}?cursor={last}": page("z", None)}
    assert len((await fetched("jsonrpc_mcp", pages)).methods) == MAX_PAGES


async def test_where_the_owners_list_breaks_off_the_wider_one_of_drupal_is_not_offered_instead() -> None:
    methods = {"GET /api/jsonrpc/methods": {"data": [{"id": "cache.rebuild", "usage": "Rebuild.", "params": {}}]}}
    broken = Answers({FIRST: page("a", "2")} | methods)
    with pytest.raises(NoListing, match="page 2"):
        await probe_dialects(broken)
    assert FIRST.replace("mcp/tools/list", "jsonrpc/methods") not in broken.asked
