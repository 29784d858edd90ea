"""Checks of arguments and results: right, bounded in time, and without a byte to the network."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema
import pytest
import referencing
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.schema.bundling import UnsoundSchema
from gateway.schema.validation import MAX_FAULT, MAX_FAULTS, ValidatorCache
from tests.each import each
from tests.fault.scripted import Bystander
from tests.pace import quickly
from tests.tables import each_row_and

Json = dict[str, Any]
VALIDATORS = ValidatorCache()


BOOK = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "copies": {"type": "integer", "minimum": 1}},
    "required": ["title"],
    "additionalProperties": False,
}


def test_a_value_that_matches_is_valid_and_has_no_faults() -> None:
    validator = VALIDATORS.compile(BOOK)
    assert validator.is_valid({"title": "x", "copies": 2})
    assert validator.faults({"title": "x", "copies": 2}) == []


def test_each_fault_is_told_with_its_place() -> None:
    validator = VALIDATORS.compile(BOOK)
    value = {"copies": 0, "colour": "red"}
    assert not validator.is_valid(value)
    faults = validator.faults(value)
    assert len(faults) == 3
    assert any(fault.startswith("copies: ") and "minimum" in fault for fault in faults)
    assert any("'colour'" in fault for fault in faults)
    assert any('"title" is a required property' in fault for fault in faults)


def test_at_most_twenty_faults_are_told_and_each_is_short() -> None:
    validator = VALIDATORS.compile({"type": "array", "items": {"type": "integer"}})
    faults = validator.faults(["é" * 400 + str(n) for n in range(30)])
    assert len(faults) == MAX_FAULTS
    assert all(len(fault.encode()) <= MAX_FAULT for fault in faults)


def test_what_a_fault_quotes_holds_nothing_hidden() -> None:
    (fault,) = VALIDATORS.compile({"type": "integer"}).faults("a\u202eb\x1b[31m")
    assert "\u202e" not in fault
    assert "\x1b" not in fault


def test_errors_of_a_value_are_not_collected_where_that_would_take_long() -> None:
    validator = ValidatorCache().compile({"additionalProperties": {"properties": {"a": {"type": "string"}}}})
    assert [list(error.instance_path) for error in validator.errors({"x": {"a": None}}) or ()] == [["x", "a"]]
    assert validator.errors({f"x{n}": {"a": None} for n in range(5000)}) is None


def test_of_broad_schemas_no_details_are_collected() -> None:
    broad = VALIDATORS.compile({"anyOf": [{"const": n} for n in range(1500)]})
    with quickly():
        assert not broad.is_valid("x")
        assert broad.faults("x") == ["the value does not match the schema"]


@each("pattern", ["^(a+)+$", "^(a|a)*$", "(.*a){20}b", "^([a-z]+)*[0-9]$"])
def test_a_pattern_that_makes_others_backtrack_is_answered_at_once(pattern: str) -> None:
    validator = VALIDATORS.compile({"type": "string", "pattern": pattern})
    with quickly():
        assert not validator.is_valid("a" * 5000 + "!")
        validator.faults("a" * 5000 + "!")


def test_comparing_many_objects_for_uniqueness_is_answered_at_once() -> None:
    validator = VALIDATORS.compile({"type": "array", "uniqueItems": True})
    values = [{"id": n, "tags": ["x"]} for n in range(5000)]
    with quickly():
        assert validator.is_valid(values)


@each("pattern", ["^(?=a).*$", "(?<!b)a", r"(a)\1", "(unclosed", "(a{1000}){1000}", r"\p{Nope}"])
def test_a_pattern_that_the_engine_refuses_is_left_out_of_the_check_alone(pattern: str) -> None:
    schema = {
        "properties": {"a": {"type": "string", "pattern": pattern, "minLength": 2}, "pattern": {"type": "string"}},
        "patternProperties": {pattern: {"type": "null"}, "^x": {"type": "integer"}},
    }
    with quickly():
        validator = VALIDATORS.compile(schema)
    assert validator.is_valid({"a": "zz", "pattern": "p", "x1": 1})
    assert not validator.is_valid({"a": "z"})
    assert not validator.is_valid({"pattern": 5})
    assert not validator.is_valid({"x1": "no"})
    assert schema["properties"]["a"]["pattern"] == pattern


def test_many_patterns_that_the_engine_refuses_do_not_hold_the_loop_for_long() -> None:
    schema = {"properties": {f"p{n}": {"pattern": f"(a{{1000}}){{{1000 + n}}}"} for n in range(100)}}
    with quickly(1):
        VALIDATORS.compile(schema)


@each(("pattern", "text"), [(r"^\d+$", "٣"), ("^a$", "a\n"), (r"^\w+$", "a b"), ("^[a-z]$", "A")])
def test_patterns_mean_what_they_mean_in_json_schema(pattern: str, text: str) -> None:
    assert not VALIDATORS.compile({"pattern": pattern}).is_valid(text)


def test_a_part_of_a_pattern_matches_anywhere() -> None:
    assert VALIDATORS.compile({"pattern": "b"}).is_valid("abc")


def test_integers_of_any_size_are_compared_exactly() -> None:
    validator = VALIDATORS.compile({"type": "integer", "maximum": 2**53})
    assert validator.is_valid(2**53)
    assert not validator.is_valid(2**53 + 1)
    assert not validator.is_valid(2**80)


BAD = {
    "a ladder": (
        {"$ref": "#/$defs/0", "$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(25)}},
        "",
    ),
}


@each_row_and(BAD)
def test_what_is_no_schema_is_unsound_and_says_where(schema: Json, pointer: str) -> None:
    with quickly(), pytest.raises(UnsoundSchema, match=r".") as caught:
        VALIDATORS.compile(schema)
    assert caught.value.pointer == pointer


@each("keyword", ["$ref", "$schema", "$dynamicRef"])
async def test_nothing_is_ever_fetched(keyword: str) -> None:
    bystander = Bystander()
    await bystander.open()
    try:
        schema = {"properties": {"a": {keyword: f"http://127.0.0.1:{bystander.port}/schema.json"}}}
        with pytest.raises(UnsoundSchema):
            await asyncio.to_thread(VALIDATORS.compile, schema if keyword != "$schema" else schema["properties"]["a"])
        assert bystander.connections == 0
    finally:
        await bystander.close()


def test_equal_schemas_share_one_validator_and_the_cache_is_bounded() -> None:
    validators = ValidatorCache(most=2)
    first = validators.compile({"type": "string", "minLength": 1})
    assert validators.compile({"minLength": 1, "type": "string"}) is first
    validators.compile({"type": "null"})
    validators.compile({"type": "boolean"})
    assert validators.compile({"type": "string", "minLength": 1}) is not first


def test_a_digest_stands_for_its_schema() -> None:
    validators = ValidatorCache()
    known = validators.compile_tool("d1", BOOK)
    assert validators.compile_tool("d1", {}) is known
    assert validators.compile_tool("d2", BOOK) is known


# --- beside the reference implementation ----------------------------------------------------------------------

PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-3, 3) | st.text("ab1", max_size=3)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(PLAIN, min_size=1, max_size=3),
        "const": PLAIN,
        "minimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "multipleOf": st.integers(1, 3),
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["a", "^b", "1$", "^[ab]+$"]),
        "minItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "maxProperties": st.integers(0, 2),
    },
)


def combined(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
            "items": inner,
            "prefixItems": several,
            "contains": inner,
            "anyOf": several,
            "allOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentRequired": st.just({"a": ["b"]}),
        },
    )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.recursive(LEAVES, combined, max_leaves=6), st.lists(VALUES, min_size=1, max_size=5))
def test_ordinary_schemas_are_decided_as_the_reference_implementation_does(schema: Json, values: list[Any]) -> None:
    try:
        validator = VALIDATORS.compile(schema)
    except UnsoundSchema:
        assume(False)
    reference = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())
    for value in values:
        assert validator.is_valid(value) == reference.is_valid(value)
        assert bool(validator.faults(value)) != validator.is_valid(value)


def test_a_value_that_fits_no_alternative_is_told_what_each_of_them_wants() -> None:
    by_range = {"type": "object", "required": ["from", "to"], "properties": {"from": {"type": "integer"}}}
    by_hash = {"type": "object", "required": ["hash", "size"]}
    validator = ValidatorCache().compile({"type": "object", "properties": {"filter": {"oneOf": [by_range, by_hash]}}})
    (fault,) = validator.faults({"filter": {}})
    assert fault.startswith("filter: ")
    assert fault.endswith(
        """(alternative 1: "from" is a required property, "to" is a required property; """
        """alternative 2: "hash" is a required property, "size" is a required property)"""
    )
    (both,) = validator.faults({"filter": {"from": 1, "to": 2, "hash": "x", "size": 1}})
    assert both.endswith("(alternative 1: it fits; alternative 2: it fits)")


def test_what_alternatives_want_is_bounded() -> None:
    names = [f"{number}{'x' * 200}" for number in range(50)]
    inner = {
        "anyOf": [{"type": "object", "required": names, "properties": {"a": {"type": "string"}}} for _ in range(50)]
    }
    (fault,) = ValidatorCache().compile({"anyOf": [inner, inner]}).faults({})
    assert len(fault.encode()) <= MAX_FAULT
