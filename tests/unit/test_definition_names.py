"""Names in ``$defs``: some LLM APIs refuse those with dots, as they refuse them in names of tools."""

from __future__ import annotations

import re
from typing import Any

from gateway.schema.bundling import bundle_schema, object_schema
from gateway.schema.validation import ValidatorCache
from tests.each import each

STRING, NUMBER = {"type": "string"}, {"type": "number"}


def refer(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"$ref": name} for n, name in enumerate(names)}}


NAMES = [
    ("List.Filter", "List_Filter"),
    ("com.example.Order", "com_example_Order"),
    ("a b:c", "a_b_c"),
    ("...", "_"),
    ("Plain-1_x", "Plain-1_x"),
]


@each(("name", "shown"), NAMES)
def test_a_definition_gets_a_name_without_dots(name: str, shown: str) -> None:
    schema = bundle_schema(refer(f"#/types/{name}", f"#/types/{name}"), {"types": {name: STRING}})
    assert schema["$defs"] == {shown: STRING}
    assert {child["$ref"] for child in schema["properties"].values()} == {f"#/$defs/{shown}"}


def test_names_that_meet_without_their_dots_stay_two() -> None:
    root = {"types": {"A.B": STRING, "A_B": NUMBER}}
    schema = bundle_schema(refer("#/types/A.B", "#/types/A_B"), root)
    check = ValidatorCache().compile(schema)
    assert len(schema["$defs"]) == 2
    assert check.is_valid({"p0": "text", "p1": 5})
    assert not check.is_valid({"p0": 5})
    assert not check.is_valid({"p1": "text"})


@each("dialect", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
def test_a_whole_schema_of_the_listing_has_none_either(dialect: Any) -> None:
    whole = {
        **dialect,
        **refer("#/$defs/x.Node"),
        "$defs": {"x.Node": {"properties": {"next": {"$ref": "#/$defs/x.Node"}}}},
    }
    schema = object_schema(whole)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in schema["$defs"])
    assert "x.Node" not in repr(schema)
