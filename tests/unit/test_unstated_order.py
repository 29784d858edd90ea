"""Parameters whose order no listing states: they are never sent by a guessed position."""

from __future__ import annotations

from gateway.catalog.build import Builder
from gateway.model import Listing, Parameter, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.unit.test_normalize import made, method

MENTIONED = method(parameters=(Parameter("b"), Parameter("a")), is_complete=False)


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
    tool = made(method(input_schema={"type": "object", "properties": {"b": {}, "a": {}}}))
    assert (tool.binding.structure, tool.binding.structure_is_known) == (Structure.BY_NAME, True)


async def test_a_whole_schema_goes_by_name_also_where_another_methods_name_cannot_be_a_key() -> None:
    whole = method(input_schema={"type": "object", "properties": {"b": {}, "a": {}}})
    listing = Listing("custom", (whole,), by_position=True)
    (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())).tools
    assert tool.binding.structure is Structure.BY_NAME
