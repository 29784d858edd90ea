"""Defaults that their own schema refuses, as 218 of Kodi's are: they are not published."""

from __future__ import annotations

from typing import Any

from gateway.catalog.curation import lint_catalog
from gateway.catalog.pins import pin_of
from gateway.mcp.content import ToolProjector
from gateway.model import Catalog, NameStyle, Parameter, Structure
from gateway.schema.texts import without_refused_defaults
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings
from tests.each import each
from tests.tables import each_row
from tests.unit.test_normalize import made, method

INTEGER = {"type": "integer"}


@each_row
def test_a_default_is_published_only_where_its_schema_takes_it(
    listed: dict[str, Any], published: dict[str, Any]
) -> None:
    shown = without_refused_defaults(listed, ValidatorCache())
    assert shown == published
    assert (shown is listed) == (listed == published)


def test_where_many_defaults_would_take_long_to_tell_apart_none_is_published() -> None:
    wide = {f"p{number}": {**INTEGER, "default": "x" if number else 1} for number in range(6000)}
    shown = without_refused_defaults({"type": "object", "properties": wide}, ValidatorCache())
    assert not any("default" in schema for schema in shown["properties"].values())


@each("style", NameStyle)
def test_the_call_and_the_pin_still_know_the_default(style: NameStyle) -> None:
    parameters = (Parameter("a", {**INTEGER, "default": "all"}), Parameter("b", INTEGER))
    tool = made(method(parameters=parameters, structure=Structure.BY_POSITION))
    properties = ToolProjector(name_style=style).project(tool)["inputSchema"]["properties"]
    assert properties == {"a": INTEGER, "b": INTEGER}
    assert tool.binding.gap_values == {"a": "all"}, "the service takes it, as its listing says"
    assert tool.input_schema["properties"]["a"]["default"] == "all"
    assert pin_of(tool).arguments == ["a", "b"]


def test_check_remarks_it() -> None:
    tool = made(method(parameters=(Parameter("a", {**INTEGER, "default": "all"}),)))
    remarks = [*lint_catalog(Catalog((tool,), "openrpc"), CatalogSettings())]
    assert any("defaults that their own schema refuses are not published" in remark for remark in remarks)
