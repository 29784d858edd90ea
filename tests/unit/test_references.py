"""Where references lead: within the schema, within the listing, and never anywhere else."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import referencing

from gateway.listing import openrpc
from gateway.schema.bundling import UnsoundSchema, bundle_schema, object_schema
from gateway.schema.validation import ValidatorCache
from tests.each import each
from tests.pace import quickly
from tests.tables import each_row

Json = dict[str, Any]
TEXT = {"type": "string"}
LISTING: Json = {
    "id": "http://service.example/listing.json",
    "types": {"Name": {"id": "Name", **TEXT}, "Odd": {"id": "other id", "type": "null"}, "Late": {"id": "#late"}},
    "components": {"schemas": {"Pet": {"properties": {"name": {"$ref": "Name"}}}, "A": True}},
    "definitions": {"D": {"items": {"$ref": "#/components/schemas/Pet"}}},
}


@each_row
def test_what_the_listing_holds_is_found_by_any_name_it_has(reference: str, target: Any) -> None:
    published = bundle_schema({"items": {"$ref": reference}}, LISTING)
    name = published["items"]["$ref"].removeprefix("#/$defs/")
    found = published["$defs"][name]
    assert found is target or found.items() >= target.items()


@each("reference", ["Absent", "Name/x", "Name#/absent", "#absent", "http://service.example/other.json"])
def test_what_the_listing_does_not_hold_is_not_found(reference: str) -> None:
    with pytest.raises(UnsoundSchema, match=r"leads out of the listing|points to nothing"):
        bundle_schema({"items": {"$ref": reference}}, LISTING)


def test_two_names_of_one_type_are_one_definition() -> None:
    published = bundle_schema({"anyOf": [{"$ref": "Name"}, {"$ref": "#/types/Name"}]}, LISTING)
    assert published["$defs"] == {"Name": TEXT}


@each_row
def test_what_a_schema_holds_is_found_as_its_specification_says(schema: Json) -> None:
    published = bundle_schema(schema, {"openrpc": "1.3.2", "$defs": {"b": {"type": "null"}}})
    assert "$id" not in str(published)
    check = ValidatorCache().compile(published)
    draft = jsonschema.Draft7Validator if "$id': '#" in str(schema) else jsonschema.Draft202012Validator
    if "'id'" in str(schema):
        draft = jsonschema.Draft4Validator
    oracle = draft(schema, registry=referencing.Registry())
    for value in (["x"], [5], [None], [["x"]], [[5]], []):
        assert check.is_valid(value) == oracle.is_valid(value)


def test_arguments_that_are_one_reference_are_what_it_leads_to() -> None:
    """Zod-to-json-schema writes them so."""
    arguments = {"type": "object", "properties": {"a": {"$ref": "#/definitions/Args/properties/b"}, "b": TEXT}}
    assert object_schema({"$ref": "#/definitions/Args", "definitions": {"Args": arguments}}) == {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}, "b": TEXT},
        "$defs": {"b": TEXT},
    }


def test_names_that_are_searched_for_in_a_large_schema_are_found_or_not_at_once() -> None:
    deep = {"allOf": [{"$defs": {f"d{n}": {"properties": {"a": {}}} for n in range(20_000)}}] * 4}
    with quickly(0.1), pytest.raises(UnsoundSchema):
        bundle_schema({**deep, "items": {"$ref": "absent"}}, {})


def test_a_parameter_is_found_in_the_document_alone_by_a_pointer_as_its_uri_is_written() -> None:
    named = {"name": "text", "schema": TEXT}
    references = ["#/components/contentDescriptors/a%20b", "http://x.example/d.json#/components/contentDescriptors/a b"]
    listing = openrpc.parse_listing({
        "openrpc": "1.3.2",
        "methods": [{"name": f"m{n}", "params": [{"$ref": reference}]} for n, reference in enumerate(references)],
        "components": {"contentDescriptors": {"a b": named}},
    })  # fmt: skip
    found, outside = (method.parameters or () for method in listing.methods)
    assert [(parameter.name, parameter.schema) for parameter in found] == [("text", TEXT)]
    assert [(parameter.name, parameter.schema) for parameter in outside] == [("arg0", True)]
