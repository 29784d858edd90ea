"""Regular expressions cost a bounded time, and what our validator leaves out only ever makes it accept more."""

from __future__ import annotations

import random
from typing import Any

import jsonschema
import referencing
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.concurrency.collector import COLLECTOR
from gateway.schema.patterns import MAX_WEIGHT, SIZES, admit_patterns, patterns_of, remove_patterns
from gateway.schema.validation import MISMATCH, ValidatorCache
from tests.each import each
from tests.pace import quickly
from tests.tables import each_row

Json = dict[str, Any]
VALIDATORS = ValidatorCache()


def test_expressions_are_found_where_they_are_expressions() -> None:
    schema = {
        "properties": {"pattern": {"pattern": "a"}, "x": {"items": {"pattern": "b"}}},
        "patternProperties": {"^c": {"pattern": "d"}},
        "allOf": [{"$ref": "#/$defs/pattern"}],
        "$defs": {"pattern": {"pattern": "e"}},
        "const": {"pattern": "not one"},
        "default": {"patternProperties": {"not one": {}}},
    }
    assert list(patterns_of(schema)) == ["^c", "a", "b", "d", "e"]


def weigh(pattern: str) -> int | None:
    return {"small": SIZES[0], "large": SIZES[-1]}.get(pattern[:5])


def test_a_schema_has_one_budget_for_all_of_its_expressions() -> None:
    large = [f"large{n}" for n in range(2 * MAX_WEIGHT // SIZES[-1])]
    held, weight = admit_patterns({"anyOf": [{"pattern": pattern} for pattern in ["small", *large]]}, weigh)
    assert held == {"small", *large[:3]}
    assert weight == SIZES[0] + 3 * SIZES[-1] <= MAX_WEIGHT


def test_equal_expressions_count_once_and_a_refused_one_spends_its_part() -> None:
    again: list[Json] = [{"pattern": "small"}] * 1000
    assert admit_patterns({"anyOf": again}, weigh) == ({"small"}, SIZES[0])
    refused = [{"pattern": f"refused {n}"} for n in range(MAX_WEIGHT // SIZES[-1])]
    assert admit_patterns({"anyOf": [*refused, *again]}, weigh) == (frozenset(), 0)
    looking = [{"pattern": f"(?={n})"} for n in range(1000)]
    assert admit_patterns({"anyOf": [*looking, *again]}, weigh) == ({"small"}, SIZES[0])


HEAVY = [r"(a{90}|b{90}){3}", r"\p{L}{5}", "[^a]{200}", ".{30}", "a|" * 400, r"(?i)\p{L}{3}", "(?=a)", "("]


@each("pattern", HEAVY)
def test_a_thousand_expressions_are_compiled_in_bounded_time(pattern: str) -> None:
    schema = {"properties": {f"p{n}": {"pattern": f"{pattern}{n}"} for n in range(1000)}}
    with COLLECTOR.gc_paused(), quickly():
        ValidatorCache().compile(schema)


@each("pattern", ["[ab]*a[ab]{400}c", "[ab]*a[ab]{20}c", "^(a|b|ab)*c$"])
def test_a_long_text_that_is_made_for_an_expression_is_answered_at_once(pattern: str) -> None:
    validator = VALIDATORS.compile({"properties": {"a": {"type": "string", "pattern": pattern}}})
    assert not validator.is_valid({"a": "d"})
    text = "".join(random.Random(1).choices("ab", k=1_000_000))
    with quickly(0.25):
        validator.is_valid({"a": text})
        validator.faults({"a": text})


def test_texts_too_long_for_their_expressions_are_checked_without_them() -> None:
    validator = VALIDATORS.compile(
        {"properties": {"a": {"type": "string", "pattern": "^[0-9a-f]{64}$", "minLength": 2}}}
    )
    assert not validator.is_valid({"a": "zz"})
    assert validator.is_valid({"a": "z" * 1_000_000})
    assert validator.faults({"a": "z" * 1_000_000}) == []
    assert not validator.is_valid({"a": 5, "b": "z" * 1_000_000})


@each_row
def test_what_only_our_engine_cannot_check_never_refuses_a_value(schema: Json, value: Any) -> None:
    assert jsonschema.Draft202012Validator(schema).is_valid(value)
    assert VALIDATORS.compile(schema).is_valid(value)


def test_what_stands_beside_an_expression_that_is_left_out_is_still_checked() -> None:
    schema = {"oneOf": [{"pattern": "(?=b)b", "minLength": 2}, {"type": "integer"}], "not": {"const": "bc"}}
    validator = VALIDATORS.compile(schema)
    assert validator.is_valid("bb")
    assert not validator.is_valid("b")
    assert validator.faults("b") != []
    assert not validator.is_valid("bc")
    assert validator.is_valid(5)


LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "pattern": st.sampled_from(["(?=b)b", "a", "(?!a)."]),
        "type": st.sampled_from(["string", "object", "array"]),
        "minLength": st.integers(0, 2),
    },
)
NAMED = st.sampled_from("abc")
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "contains": inner,
            "maxContains": st.just(1),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "properties": st.dictionaries(NAMED, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["(?=b)b", "a"]), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "unevaluatedProperties": inner | st.booleans(),
            "unevaluatedItems": st.booleans(),
            "propertyNames": inner,
            "dependentSchemas": st.dictionaries(NAMED, inner, max_size=1),
            "$ref": st.just("#/$defs/x"),
        },
    ),
    max_leaves=6,
)
TEXTS = st.text("abc", max_size=3)
VALUES = TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=3)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(schema=SCHEMAS, definition=LEAVES, value=VALUES)
def test_a_schema_without_some_expressions_accepts_at_least_what_the_whole_accepts(
    schema: Json, definition: Json, value: Any
) -> None:
    whole = {**schema, "$defs": {"x": definition}}
    relaxed = remove_patterns(whole, lambda pattern: "(?" in pattern)
    assert not any("(?" in pattern for pattern in patterns_of(relaxed))
    if jsonschema.Draft202012Validator(whole, registry=referencing.Registry()).is_valid(value):
        assert jsonschema.Draft202012Validator(relaxed, registry=referencing.Registry()).is_valid(value)
        assert MISMATCH not in VALIDATORS.compile(relaxed).faults(value)
