"""Method → Tool: what is published of a method, and how it will be called."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from gateway.catalog.normalize import ToolPolicy, build_tool
from gateway.model import Method, NameStyle, Parameter, Structure, Tool
from gateway.schema.bundling import UnsoundSchema
from gateway.schema.validation import ValidatorCache
from gateway.settings import Params, ToolOverride
from tests.each import each
from tests.tables import each_row

STRING, NUMBER = {"type": "string"}, {"type": "number"}
TWO = (Parameter("a", STRING, True, "First."), Parameter("b", NUMBER))
VALIDATORS = ValidatorCache()


class Members(TypedDict, total=False):
    """Members of a listed method, as a row of a table has them."""

    title: str
    description: str
    parameters: tuple[Parameter, ...] | None
    input_schema: dict[str, Any]
    result: Any
    structure: Structure
    annotations: dict[str, Any]
    scopes: frozenset[str]
    notification: bool
    endpoint: str
    deprecated: bool
    meta: dict[str, Any]


NAMES = {NameStyle.MCP: "tool", NameStyle.LLM: "llm_tool"}


def made(method: Method, override: Any = None, *, params: Any = None, trusted: bool = False) -> Tool:
    policy = ToolPolicy(Params.model_validate(params or {}), trusted)
    return build_tool(method, NAMES, ToolOverride.model_validate(override or {}), policy, VALIDATORS)


def method(**members: Any) -> Method:
    return Method("the.method", **members)


def test_parameters_become_properties_in_their_order() -> None:
    tool = made(method(parameters=TWO))
    assert tool.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "First."}, "b": NUMBER},
        "required": ["a"],
    }
    assert list(tool.input_schema["properties"]) == ["a", "b"]
    assert (tool.name, tool.method, tool.binding.order) == ("tool", "the.method", ("a", "b"))


def test_a_method_without_parameters_takes_an_empty_object_and_sends_none() -> None:
    tool = made(method())
    assert tool.input_schema == {"type": "object", "properties": {}}
    assert not tool.binding.declares_parameters


@each_row
def test_a_parameters_own_description_wins_over_its_schemas_and_the_operators_over_both(
    own: str, schemas: str, override: Any, shown: str
) -> None:
    parameter = Parameter("a", {"type": "string"} | ({"description": schemas} if schemas else {}), description=own)
    tool = made(method(parameters=(parameter,)), {"arguments": {"a": override}} if override else None)
    assert tool.input_schema["properties"]["a"]["description"] == shown


def test_two_parameters_of_one_shared_schema_keep_their_own_descriptions() -> None:
    shared = {"$ref": "#/components/schemas/Id"}
    root = {"components": {"schemas": {"Id": {"type": "string", "description": "An identifier."}}}}
    parameters = (Parameter("from", shared, description="From where."), Parameter("to", shared, description="To."))
    properties = made(method(parameters=parameters, root=root)).input_schema["properties"]
    assert [properties[name]["description"] for name in ("from", "to")] == ["From where.", "To."]


def test_unknown_parameters_are_taken_as_one_array() -> None:
    tool = made(method(parameters=None, structure=Structure.BY_POSITION))
    assert tool.input_schema["properties"].keys() == {"params"}
    assert tool.input_schema["properties"]["params"]["type"] == "array"
    assert (tool.binding.spread_argument, tool.binding.order, tool.binding.declares_parameters) == ("params", (), True)


def test_unknown_parameters_in_an_unknown_structure_are_a_list_or_an_object() -> None:
    tool = made(method(parameters=None, structure=Structure.UNKNOWN))
    assert tool.input_schema["properties"]["params"]["type"] == ["array", "object"]
    assert (tool.binding.spread_argument, tool.binding.structure_is_known) == ("params", True)


def test_unknown_parameters_by_name_are_any_object() -> None:
    tool = made(method(parameters=None, structure=Structure.BY_NAME))
    assert tool.input_schema == {"type": "object"}
    assert (tool.binding.spread_argument, tool.binding.structure) == (None, Structure.BY_NAME)


@each_row
def test_the_shape_of_params_is_the_overrides_the_backends_the_listings_or_a_guess(
    listed: Structure, name: str, params: Any, override: str | None, structure: Structure
) -> None:
    tool = made(method(parameters=(Parameter(name),), structure=listed), {"structure": override}, params=params)
    assert tool.binding.structure is structure


def test_gaps_are_filled_with_defaults_or_with_null_where_the_schema_takes_it() -> None:
    schemas = {
        "default": {"type": "integer", "default": 3},
        "null": {"type": "null"},
        "nullable": {"type": ["string", "null"]},
        "either": {"anyOf": [STRING, {"type": "null"}]},
        "anything": {"description": "x"},
        "text": STRING,
        "no": {"anyOf": [STRING, NUMBER]},
    }
    tool = made(method(parameters=tuple(Parameter(name, schema) for name, schema in schemas.items())))
    assert tool.binding.gap_values == {"default": 3, "null": None, "nullable": None, "either": None, "anything": None}


def test_defaults_are_sent_where_the_operator_says_so_and_where_the_listing_declares_them() -> None:
    parameters = (Parameter("a", {"type": "integer", "default": 3}), Parameter("b", {"type": ["string", "null"]}))
    assert made(method(parameters=parameters)).binding.sent == {}
    assert made(method(parameters=parameters), params={"send_defaults": True}).binding.sent == {"a": 3}


# --- overrides ------------------------------------------------------------------------------------------------


def test_an_argument_override_changes_only_what_it_names() -> None:
    override = {"arguments": {"b": {"description": "Second.", "required": True}, "c": {"schema": {"type": "null"}}}}
    tool = made(method(parameters=TWO), override)
    assert tool.input_schema["properties"] == {
        "a": {"type": "string", "description": "First."},
        "b": {"type": "number", "description": "Second."},
        "c": {"type": "null"},
    }
    assert tool.input_schema["required"] == ["a", "b"]


def test_where_the_listing_tells_no_parameters_the_overrides_are_all_of_them_in_order() -> None:
    unknown = method(parameters=None, structure=Structure.BY_POSITION)
    tool = made(unknown, {"arguments": {"uris": {"required": True}, "options": {"schema": {"type": "object"}}}})
    assert tool.binding.order == ("uris", "options")
    assert tool.binding.spread_argument is None
    assert tool.input_schema["required"] == ["uris"]


def test_overrides_name_what_a_listing_only_counts() -> None:
    counted = method(parameters=(Parameter("arg0", STRING, True), Parameter("arg1", NUMBER)))
    tool = made(counted, {"arguments": {"title": {"description": "A title."}, "price": {"required": True}}})
    assert tool.input_schema == {
        "type": "object",
        "properties": {"title": {**STRING, "description": "A title."}, "price": NUMBER},
        "required": ["title", "price"],
    }
    assert tool.binding.order == ("title", "price")


def test_an_override_of_a_counted_argument_keeps_its_place_and_the_others_take_the_rest() -> None:
    counted = method(parameters=tuple(Parameter(f"arg{place}") for place in range(3)))
    tool = made(counted, {"arguments": {"last": {}, "arg0": {}, "more": {}, "beside": {}}})
    assert tool.binding.order == ("arg0", "last", "more", "beside")


def test_an_override_renames_nothing_that_the_listing_has_a_name_for() -> None:
    tool = made(method(parameters=(Parameter("arg0"), Parameter("own"))), {"arguments": {"a": {}}})
    assert tool.binding.order == ("arg0", "own", "a")


def test_an_override_of_a_whole_input_schema_keeps_its_other_arguments() -> None:
    whole = {
        "type": "object",
        "properties": {"a": STRING, "b": {"$ref": "#/$defs/B"}},
        "required": ["a"],
        "$defs": {"B": NUMBER},
    }
    tool = made(method(input_schema=whole), {"arguments": {"a": {"schema": {"enum": ["x"]}}}})
    assert tool.input_schema["properties"] == {"a": {"enum": ["x"]}, "b": {"$ref": "#/$defs/B"}}
    assert tool.input_schema["$defs"] == {"B": NUMBER}
    assert tool.input_schema["required"] == ["a"]


def test_an_override_that_replaces_no_schema_leaves_the_rest_of_a_whole_one_alone() -> None:
    whole = {
        "properties": {"a": STRING, "b": []},
        "required": ["a"],
        "additionalProperties": NUMBER,
        "anyOf": [{"required": ["b"]}, {"maxProperties": 1}],
    }
    override = {"arguments": {"a": {"required": False, "description": "First."}, "b": {"required": True}}}
    assert made(method(input_schema=whole), override).input_schema == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "First."}, "b": {}},
        "required": ["b"],
        "additionalProperties": NUMBER,
        "anyOf": whole["anyOf"],
    }


def test_title_description_annotations_and_timeout_are_the_operators() -> None:
    override = {"title": "T", "description": "D", "annotations": {"readOnlyHint": True}, "timeout": "2m"}
    tool = made(method(title="t", description="d"), override)
    assert (tool.title, tool.description, tool.binding.timeout) == ("T", "D", 120)
    assert tool.annotations == {"readOnlyHint": True}


# --- output schemas -------------------------------------------------------------------------------------------


@each_row
def test_an_output_schema_is_published_where_it_says_something(declared: Any, published: Any) -> None:
    tool = made(method(result=declared))
    assert tool.output_schema == published
    assert "outputSchemaDropped" not in tool.meta


@each(
    "bad",
    [
        {"type": "foo"},
        {"$ref": "http://evil.example/x"},
        {"allOf": [{"$ref": "#"}]},
        {"items": 5},
        {"$ref": "#/absent"},
        {"enum": ["x" * 70000]},
    ],
)
def test_a_bad_output_schema_is_dropped_and_the_tool_stays(bad: Any) -> None:
    tool = made(method(parameters=TWO, result=bad))
    assert tool.output_schema is None
    assert isinstance(tool.meta["outputSchemaDropped"], str)


def test_the_operator_may_replace_an_output_schema_or_take_it_away() -> None:
    assert made(method(result={"type": "foo"}), {"output_schema": NUMBER}).output_schema == NUMBER
    assert made(method(result=NUMBER), {"output_schema": False}).output_schema is None


# --- what cannot become a tool --------------------------------------------------------------------------------


def test_a_bad_parameter_is_unsound_with_its_name_and_place() -> None:
    bad = Parameter("a/b", {"items": {"$ref": "http://evil.example"}})
    with pytest.raises(UnsoundSchema) as caught:
        made(method(parameters=(bad,)))
    assert caught.value.pointer == "/properties/a~1b/items/$ref"
    assert caught.value.argument == "a/b"


def test_a_bad_definition_is_unsound_with_the_parameter_that_needs_it() -> None:
    root = {"X": {"not": {"$ref": "other.json"}}}
    with pytest.raises(UnsoundSchema) as caught:
        made(method(parameters=(Parameter("p", {"$ref": "#/X"}),), root=root))
    assert (caught.value.pointer, caught.value.argument) == ("/$defs/X/not/$ref", "p")


# --- digests --------------------------------------------------------------------------------------------------


def test_equal_methods_have_equal_digests_whatever_the_order_of_members() -> None:
    one = made(method(parameters=(Parameter("a", {"type": "string", "minLength": 1}),)))
    two = made(method(parameters=(Parameter("a", {"minLength": 1, "type": "string"}),)))
    assert one.digest == two.digest != ""


@each_row
def test_a_change_that_matters_changes_the_digest(changed: Members) -> None:
    assert made(method(**{"parameters": TWO} | changed)).digest != made(method(parameters=TWO)).digest


@each_row
def test_the_rule_for_destructive_tools_matches_what_is_said(
    override: Any, listed: Any, trusted: bool, confirms: bool
) -> None:
    listing = method(annotations=listed)
    assert made(listing, {"confirm": "destructive", **override}, trusted=trusted).confirm is confirms
    assert not made(listing, override, trusted=trusted).confirm


def test_a_tool_is_confirmed_where_the_operator_says_so() -> None:
    assert made(method(), {"confirm": True}).confirm
