"""What a model reads of arguments that a check refuses: what to send instead."""

from __future__ import annotations

from typing import Any, Final

from gateway.schema.validation import MAX_FAULT, ValidatorCache
from tests.each import each
from tests.tables import each_row

FIELDS: Final = {"enum": ["title", "year"]}
RULE: Final = {
    "type": "object",
    "properties": {"field": FIELDS, "value": {"type": "string"}},
    "required": ["field"],
    "additionalProperties": False,
}
BOTH: Final = {"type": "object", "properties": {"and": {"type": "array", "items": RULE}}, "required": ["and"]}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "color": {"enum": ["red", "green", "blue", "cyan", "pink", "teal"]},
        "filter": {"anyOf": [RULE, BOTH, {"type": "string"}]},
        "limit": {"type": "integer"},
        "many": {"enum": [f"label {number}" for number in range(21)]},
    },
    "additionalProperties": False,
}


@each_row
def test_a_fault_says_what_is_valid(arguments: dict[str, Any], said: str) -> None:
    assert ValidatorCache().compile(SCHEMA).faults(arguments) == [said]


@each("named", [{"const": "a"}, {"enum": ["a"]}])
def test_the_alternative_that_a_constant_names_is_meant(named: dict[str, Any]) -> None:
    circle = {"properties": {"kind": named, "radius": {}, "x": {}}, "required": ["kind", "radius", "x"]}
    text = {"properties": {"kind": {"const": "b"}, "text": {}}, "required": ["kind", "text"]}
    shape = {"anyOf": [circle, text], "type": "object"}
    compiled = ValidatorCache().compile({"properties": {"shape": shape}})
    assert compiled.faults({"shape": {"kind": "b"}}) == ['shape: "text" is a required property']
    assert compiled.faults({"shape": {"kind": "a", "x": 1}}) == ['shape: "radius" is a required property']


@each("known", [{}, {"properties": {"a": {}}}])
@each_row
def test_a_part_of_a_schema_does_not_speak_for_all_arguments(
    known: dict[str, Any], rule: dict[str, Any], said: str
) -> None:
    (fault,) = ValidatorCache().compile({"type": "object", **known, **rule}).faults({"a": 1, "b": 1})
    assert said in fault


@each_row
def test_a_missing_argument_is_told_with_what_it_takes(schema: Any, said: str) -> None:
    shared = {"color": {"enum": ["red", "green"]}, "absent": {}}
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": shared}
    assert ValidatorCache().compile(whole).faults({}) == [f'"a" is a required property{said}']
    inner = {"type": "object", "properties": {"b": {"$ref": "#/$defs/inner"}}, "$defs": {**shared, "inner": whole}}
    assert ValidatorCache().compile(inner).faults({"b": {}}) == [f'b: "a" is a required property{said}']


def test_of_more_than_twenty_labels_some_are_named() -> None:
    (fault,) = ValidatorCache().compile(SCHEMA).faults({"many": "x"})
    assert "other candidates" in fault


def test_a_tool_without_arguments_says_so() -> None:
    schema = {"type": "object", "additionalProperties": False}
    assert ValidatorCache().compile(schema).faults({"a": 1}) == ["it takes no arguments"]


@each(
    "schema",
    [
        {"enum": ["x" * 100 for _ in range(20)]},
        {"type": "object", "additionalProperties": False, "properties": {f"{n}{'é' * 90}": {} for n in range(40)}},
        {"anyOf": [{"type": "object", "required": ["y" * 900]}, {"type": "string"}]},
    ],
)
def test_a_fault_has_at_most_400_bytes(schema: dict[str, Any]) -> None:
    (fault,) = ValidatorCache().compile(schema).faults({"a": "é" * 900})
    assert len(fault.encode()) <= MAX_FAULT
