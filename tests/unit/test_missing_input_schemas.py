"""Entries of an MCP-shaped listing that do not say what they take: nothing may be forwarded unchecked."""

from __future__ import annotations

from typing import Any

from gateway.catalog.build import Builder
from gateway.listing import jsonrpc_mcp, static
from gateway.model import Catalog, Listing
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each

GOOD = {"name": "good", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}}
BAD: dict[str, dict[str, Any]] = {
    "no inputSchema": {},
    "null": {"inputSchema": None},
    "a list": {"inputSchema": []},
    "a text": {"inputSchema": "object"},
    "true": {"inputSchema": True},
    "a number": {"inputSchema": 5},
}


async def built(listing: Listing, **knobs: Any) -> Catalog:
    return await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings.model_validate(knobs))


@each("members", BAD)
async def test_an_entry_without_an_input_schema_is_quarantined_alone_with_reason_and_remedy(members: Any) -> None:
    entries = [GOOD, {"name": "purge", **members}]
    for listing in (jsonrpc_mcp.parse_listing(entries), static.parse_listing({"tools": entries})):
        catalog = await built(listing)
        assert catalog.names == ("good",)
        (entry,) = catalog.quarantined
        assert (entry.name, entry.reason) == ("purge", "its entry has no inputSchema that is an object")
        assert entry.remedy == 'give it a schema under catalog.tools."purge".arguments'


async def test_the_arguments_that_the_operator_gives_free_it() -> None:
    listing = jsonrpc_mcp.parse_listing([{"name": "purge"}])
    catalog = await built(listing, tools={"purge": {"arguments": {"id": {"schema": {"type": "string"}}}}})
    assert catalog.quarantined == ()
    assert list(catalog.tools[0].input_schema["properties"]) == ["id"]


async def test_an_input_schema_that_says_nothing_is_still_one() -> None:
    assert (await built(jsonrpc_mcp.parse_listing([{"name": "any", "inputSchema": {}}]))).names == ("any",)
