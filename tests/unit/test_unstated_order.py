"""Parameters whose order no listing states: they are never sent by a guessed position."""

from __future__ import annotations

from gateway.catalog.build import Builder
from gateway.cli.methods_file import render_methods
from gateway.config.source import load_settings
from gateway.listing import plain, static
from gateway.listing.documents import load
from gateway.model import Listing, Method, Parameter, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each
from tests.unit.test_normalize import made, method

MENTIONED = method(parameters=(Parameter("b"), Parameter("a")), is_complete=False)
WHOLE = method(input_schema={"type": "object", "properties": {"b": {}, "a": {}}})


def test_parameters_that_a_description_mentions_may_not_be_all() -> None:
    tool = made(MENTIONED)
    assert (tool.binding.structure, tool.closed) == (Structure.BY_NAME, False)
    assert tool.binding.structure_is_known, "no other structure is tried: by position their order would be a guess"


def test_parameters_without_an_order_are_one_array_where_the_service_takes_positions() -> None:
    tool = made(MENTIONED, params={"structure": "by-position"})
    assert list(tool.input_schema["properties"]) == ["params"]
    assert tool.binding.spread_argument == "params"


def test_the_operators_order_counts_where_the_listing_has_none() -> None:
    override = {"structure": "by-position", "arguments": {"a": {"required": True}, "b": {}}}
    tool = made(MENTIONED, override)
    assert (tool.binding.order, tool.closed) == (("a", "b"), True)
    assert made(MENTIONED, {"structure": "by-position", "arguments": {"a": {}}}).binding.spread_argument == "params"


def test_a_whole_schema_has_no_order_so_it_is_never_tried_by_position() -> None:
    tool = made(WHOLE)
    assert (tool.binding.structure, tool.binding.structure_is_known) == (Structure.BY_NAME, True)


async def sent(listing: Listing) -> tuple[Structure, bool]:
    """Return the structure of the first tool, and whether another one is never tried."""
    catalog = await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())
    return catalog.tools[0].binding.structure, catalog.tools[0].binding.structure_is_known


@each("unordered", [WHOLE, MENTIONED])
async def test_what_has_no_order_goes_by_name_also_where_another_methods_name_cannot_be_a_key(
    unordered: Method,
) -> None:
    assert await sent(Listing("custom", (unordered,), by_position=True)) == (Structure.BY_NAME, True)


async def test_a_methods_file_gives_mentioned_parameters_no_order() -> None:
    lend = {"name": "lend", "description": "Lend a book.\n\n:param to: who\n:param book: which"}
    listing = plain.parse_listing([lend, {"name": "old (lend)"}])
    assert listing.by_position
    (settings,) = load_settings(None, ("backend.url=http://127.0.0.1:1/rpc", "auth.mode=off"), {}).by_mount.values()
    text = render_methods(settings, listing, frozenset({"lend"}))
    assert await sent(static.parse_listing(load(text.encode()))) == await sent(listing) == (Structure.BY_NAME, True)
