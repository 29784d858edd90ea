"""What is shown of a tool, and which pages revisions share: those that show tools alike, and no others."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from jsonschema import Draft202012Validator

from gateway.catalog.pins import pin_of
from gateway.mcp.content import ToolProjector
from gateway.model import Binding, NameStyle, Structure, Tool
from tests.each import each
from tests.tables import each_row


def test_whatever_changes_what_is_shown_changes_the_key() -> None:
    one = ToolProjector()
    others = {
        field.name: replace(one, **{field.name: NameStyle.MCP if field.name == "name_style" else not field.default})
        for field in fields(ToolProjector)
        if field.init
    }
    assert len({one.key, *(other.key for other in others.values())}) == len(others) + 1


def test_revisions_that_show_tools_alike_share_their_pages() -> None:
    assert (
        ToolProjector(titles=False).with_name_style(NameStyle.MCP).key
        == ToolProjector(titles=False, name_style=NameStyle.MCP).key
    )


CLOSED = {"type": "object", "additionalProperties": False}
OPEN = {"type": "object"}


def nested(closed: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with closed objects wherever a schema may stand, and with data that only looks like them."""
    return {
        **closed,
        "properties": {
            "additionalProperties": {"type": "boolean", "default": False},
            "list": {"type": "array", "items": closed, "prefixItems": [closed]},
            "either": {"anyOf": [closed, {"allOf": [closed]}]},
            "map": {"type": "object", "additionalProperties": closed},
            "data": {"const": CLOSED, "enum": [CLOSED], "default": CLOSED, "examples": [CLOSED]},
        },
        "patternProperties": {"^x": closed},
        "$defs": {"shared": closed},
    }


@each("style", NameStyle)
def test_models_are_shown_no_closed_object_and_other_clients_the_services_own_words(style: NameStyle) -> None:
    schema = nested(CLOSED)
    tool = Tool("t", "t", "", schema, Binding("t", Structure.BY_NAME), output_schema=schema)
    shown = ToolProjector(name_style=style).project(tool)
    expected = schema if style is NameStyle.MCP else nested(OPEN)
    assert (shown["inputSchema"], shown["outputSchema"]) == (expected, expected)
    assert tool.checked_schema["additionalProperties"] is False, "the check refuses others all the same"


@each_row
def test_models_are_shown_no_boolean_in_place_of_a_schema(listed: dict[str, Any], shown: dict[str, Any]) -> None:
    tool = Tool("t", "t", "", {"type": "object", "properties": {"a": listed}}, Binding("t", Structure.BY_NAME))
    assert ToolProjector(name_style=NameStyle.MCP).project(tool)["inputSchema"]["properties"]["a"] == listed
    assert ToolProjector().project(tool)["inputSchema"]["properties"]["a"] == shown
    check, check_shown = Draft202012Validator(listed), Draft202012Validator(shown)
    for value in ({}, {"b": 1}, [], [1], [1, 2, 3], "text", None):
        assert check.is_valid(value) == check_shown.is_valid(value), value


@each("style", NameStyle)
def test_a_schema_that_names_its_dialect_is_shown_as_it_was_written(style: NameStyle) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **nested(CLOSED)}
    tool = Tool("t", "t", "", schema, Binding("t", Structure.BY_NAME))
    assert ToolProjector(name_style=style).project(tool)["inputSchema"] == schema


@each_row
def test_the_schema_of_results_that_models_see_accepts_what_the_services_does(schema: dict[str, Any]) -> None:
    """Clients check results against it."""
    tool = Tool("t", "t", "", schema, Binding("t", Structure.BY_NAME), output_schema=schema)
    own, shown = Draft202012Validator(schema), Draft202012Validator(ToolProjector().project(tool)["outputSchema"])
    values: list[Any] = [{}, {"a": 1}, {"a": 1, "b": 2}, {"a": "x"}, {"b": 1}, {"a": [{"a": 1}, {"a": 1, "b": 2}]}]
    assert [value for value in values if own.is_valid(value)] == [
        value for value in values if own.is_valid(value) and shown.is_valid(value)
    ]


def test_open_objects_within_one_that_allows_only_what_is_evaluated_are_shown_to_models() -> None:
    schema = {"type": "object", "allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}
    shown = ToolProjector().project(Tool("t", "t", "", schema, Binding("t", Structure.BY_NAME)))["inputSchema"]
    assert Draft202012Validator(schema).is_valid({"b": 1})
    assert Draft202012Validator(shown).is_valid({"b": 1})


def test_a_pin_does_not_see_how_a_schema_is_shown() -> None:
    pins = {
        pin_of(Tool("t", "t", "", nested(schema), Binding("t", Structure.BY_NAME))).input_schema
        for schema in (CLOSED, OPEN)
    }
    assert len(pins) == 2
