"""Schemas of a listing become self-contained JSON Schema 2020-12 of bounded size."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.schema.bundling import MAX_BYTES, MAX_DEPTH, Bundler, UnsoundSchema, bundle_schema, object_schema
from tests.each import each
from tests.tables import each_row

Json = dict[str, Any]
NODE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}}
ROOT = {
    "components": {
        "schemas": {
            "Node": NODE,
            "Name": {"type": "string"},
            "Person": {"properties": {"name": {"$ref": "#/components/schemas/Name"}}},
            "Unused": {"$ref": "http://evil.example/x"},
            "a/b~c": {"type": "integer"},
            "with space": {"type": "null"},
        }
    }
}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def test_only_what_is_referred_to_is_copied_however_far() -> None:
    assert bundle_schema(ref("Person"), ROOT) == {
        "$ref": "#/$defs/Person",
        "$defs": {"Person": {"properties": {"name": {"$ref": "#/$defs/Name"}}}, "Name": {"type": "string"}},
    }


def test_recursion_stays_a_reference() -> None:
    bundled = bundle_schema({"anyOf": [ref("Node"), {"type": "null"}]}, ROOT)
    assert bundled["anyOf"][0] == {"$ref": "#/$defs/Node"}
    assert bundled["$defs"] == {
        "Node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    }


@each("root", [{}, {"openrpc": "1.2.6", "methods": []}])
def test_a_schema_that_refers_to_itself_as_a_whole_is_recursive_and_not_the_listing(root: Json) -> None:
    bundled = bundle_schema({"type": "object", "properties": {"next": {"$ref": "#"}}}, root)
    (name,) = bundled["$defs"]
    assert bundled["$defs"][name] == {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{name}"}}}
    assert bundled["properties"] == {"next": {"$ref": f"#/$defs/{name}"}}


@each(
    ("reference", "target"),
    [("a~1b~0c", {"type": "integer"}), ("a%7E1b%7E0c", {"type": "integer"}), ("with%20space", {"type": "null"})],
)
def test_names_with_slashes_tildes_and_blanks_are_found(reference: str, target: Json) -> None:
    bundled = bundle_schema({"items": ref(reference)}, ROOT)
    (given,) = bundled["$defs"]
    assert bundled == {"items": {"$ref": f"#/$defs/{given}"}, "$defs": {given: target}}
    assert "/" not in given
    assert "~" not in given


def test_a_root_that_only_refers_becomes_what_it_refers_to_so_that_its_type_is_seen() -> None:
    assert bundle_schema(ref("Name"), ROOT) == {"type": "string"}
    person = {"$ref": "#/P", "P": {"type": "object", "properties": {"n": {"$ref": "#/N"}}}, "N": {"type": "string"}}
    assert bundle_schema({"$ref": "#/P"}, person) == {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"type": "string"}},
    }
    recursive = bundle_schema(ref("Node"), ROOT)
    assert recursive["type"] == "object"
    assert set(recursive["$defs"]) == {"Node"}


@each("target", [True, False, {}, {"anyOf": [{"type": "object"}]}])
def test_a_root_that_refers_to_what_has_no_type_stays_a_reference(target: Any) -> None:
    assert bundle_schema({"$ref": "#/X"}, {"X": target}) == {"$ref": "#/$defs/X", "$defs": {"X": target}}


def test_two_definitions_of_one_name_stay_two() -> None:
    root = {"a": {"X": {"type": "string"}}, "b": {"X": {"type": "number"}}}
    bundled = bundle_schema({"anyOf": [{"$ref": "#/a/X"}, {"$ref": "#/b/X"}]}, root)
    kinds = [bundled["$defs"][part["$ref"].rpartition("/")[2]]["type"] for part in bundled["anyOf"]]
    assert kinds == ["string", "number"]


def test_references_into_the_schema_itself_are_resolved_where_the_listing_has_none() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/definitions/B"}}}, "definitions": {"B": True}}
    assert bundle_schema(schema, ROOT) == {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": True},
    }


def test_a_chain_of_definitions_longer_than_any_stack_is_bundled() -> None:
    chain = {f"S{n}": {"properties": {"a": {"$ref": f"#/{n + 1}"}}} for n in range(900)}
    root = {str(n): schema for n, schema in enumerate(chain.values())} | {"900": {"type": "string"}}
    assert len(bundle_schema({"$ref": "#/0"}, root)["$defs"]) == 901


@each_row
def test_what_php_and_older_drafts_write_is_mended_at_every_level(written: Any, mended: Json) -> None:
    assert bundle_schema(written, {}) == mended


EXTERNAL = [
    "http://evil.example/s.json",
    "https://evil.example/s#/a",
    "file:///etc/passwd",
    "//evil.example/s",
    "./other.json",
    "../up.json#/x",
    "other.json",
    "urn:x:y",
    "",
    "ftp://x",
    "data:application/json,{}",
]
PLACES = {
    "/$ref": lambda r: {"$ref": r},
    "/properties/a/$ref": lambda r: {"properties": {"a": {"$ref": r}}},
    "/items/$ref": lambda r: {"items": {"$ref": r}},
    "/prefixItems/1/$ref": lambda r: {"prefixItems": [{}, {"$ref": r}]},
    "/anyOf/0/allOf/1/$ref": lambda r: {"anyOf": [{"allOf": [{}, {"$ref": r}]}]},
    "/if/$ref": lambda r: {"if": {"$ref": r}},
    "/dependentSchemas/a/$ref": lambda r: {"dependentSchemas": {"a": {"$ref": r}}},
    "/dependencies/a/$ref": lambda r: {"dependencies": {"a": {"$ref": r}}},
    "/patternProperties/^a~1b~0$/not/$ref": lambda r: {"patternProperties": {"^a/b~$": {"not": {"$ref": r}}}},
    "/$defs/X/items/$ref": lambda r: {"$ref": "#/$defs/X", "$defs": {"X": {"items": {"$ref": r}}}},
}


@each("place", [*PLACES])
@each("reference", EXTERNAL)
def test_a_reference_out_of_the_listing_is_refused_with_its_place(reference: str, place: str) -> None:
    with pytest.raises(UnsoundSchema, match="out of the listing") as caught:
        bundle_schema(PLACES[place](reference), ROOT)
    assert caught.value.pointer == place


@each_row
def test_what_cannot_be_mended_is_unsound_and_says_where(schema: Json, reason: str, pointer: str) -> None:
    with pytest.raises(UnsoundSchema, match=reason) as caught:
        bundle_schema(schema, {"text": "x"})
    assert caught.value.pointer == pointer


def nested(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"items": schema}
    return schema


def test_depth_is_bounded_exactly() -> None:
    assert bundle_schema(nested(MAX_DEPTH), {}) == nested(MAX_DEPTH)
    with pytest.raises(UnsoundSchema, match="32 levels") as caught:
        bundle_schema(nested(MAX_DEPTH + 1), {})
    assert caught.value.pointer == "/items" * MAX_DEPTH


def test_size_is_bounded_exactly() -> None:
    room = MAX_BYTES - len('{"description":""}')
    assert bundle_schema({"description": "x" * room}, {})
    with pytest.raises(UnsoundSchema, match="64 KiB"):
        bundle_schema({"description": "x" * (room + 1)}, {})
    with pytest.raises(UnsoundSchema, match="more than 64 KiB"):
        object_schema({"enum": ["x" * 100] * 1000})


def test_size_counts_what_was_copied() -> None:
    with pytest.raises(UnsoundSchema, match="64 KiB"):
        bundle_schema({"$ref": "#/big"}, {"big": {"description": "x" * MAX_BYTES}})


def test_a_value_nested_beyond_what_can_be_written_is_unsound() -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(UnsoundSchema, match="cannot be written"):
        bundle_schema({"default": deep}, {})


def test_several_schemas_share_their_definitions() -> None:
    bundler = Bundler(ROOT)
    first, second = bundler.add_schema(ref("Name")), bundler.add_schema({"items": ref("Name")})
    assert first == {"$ref": "#/$defs/Name"}
    assert second == {"items": {"$ref": "#/$defs/Name"}}
    assert list(bundler.definitions) == ["Name"]


# --- a whole arguments object ---------------------------------------------------------------------------------


@each_row
def test_an_arguments_object_is_mended_and_otherwise_as_it_came(written: Json, published: Json) -> None:
    assert object_schema(written) == published


@each("kind", ["array", "string", ["array", "null"], "banana", 5])
def test_arguments_that_are_no_object_are_unsound(kind: Any) -> None:
    with pytest.raises(UnsoundSchema, match="not an object") as caught:
        object_schema({"type": kind})
    assert caught.value.pointer == "/type"


@each("data", ["\ud800", {(1, 2): 3}])
@each("made", [object_schema, lambda schema: bundle_schema(schema, schema)])
def test_data_that_json_cannot_express_is_unsound_also_behind_a_reference(data: Any, made: Any) -> None:
    with pytest.raises(UnsoundSchema, match="cannot be written as JSON"):
        made({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "default": data}}})


WHOLE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object"}},
    "properties": {"address": {"$ref": "#/$defs/address"}},
    "if": {"required": ["address"]},
    "then": {"maxProperties": 1},
    "additionalProperties": False,
}


def test_a_whole_schema_of_2020_12_is_published_word_for_word() -> None:
    """MCP 2026-07-28, basic/index "JSON Schema usage"."""
    assert object_schema(WHOLE) == WHOLE


@each(
    ("written", "lost"),
    {
        "another dialect": ({**WHOLE, "$schema": "http://json-schema.org/draft-07/schema#"}, "draft-07"),
        "a dialect within": ({**WHOLE, "properties": {"a": {"$schema": "https://example.com/x"}}}, "example.com"),
        "an anchor that is none": ({**WHOLE, "$defs": {"address": {"$anchor": "b c"}}}, "b c"),
        "an identifier": ({**WHOLE, "$id": "https://example.com/x"}, "example.com"),
    },
)
def test_what_would_move_or_break_references_is_left_out(written: Json, lost: str) -> None:
    assert lost not in str(object_schema(written))
