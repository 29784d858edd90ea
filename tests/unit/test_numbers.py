"""Numbers that the engine compares slowly, in what callers send and in what listings declare, cost a bounded time."""

from __future__ import annotations

from typing import Any

import jsonschema
import referencing
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.schema.patterns import EQUALITY, compares_numbers, remove_patterns_and_numbers, weigh_literals, weight_of
from gateway.schema.validation import TOO_LARGE, ValidatorCache
from tests.each import each
from tests.pace import quickly

Json = dict[str, Any]
VALIDATORS = ValidatorCache()
MANY = 100_000

# A schema of each item, with a list of them that fills a body of a mebibyte, or nearly so.
COSTLY: dict[str, tuple[Json, list[Any]]] = {
    "multipleOf with an extreme quotient": ({"multipleOf": 1e-300}, [1e300] * MANY),
    "a tiny multipleOf of plain integers": ({"multipleOf": 5e-324}, [3] * MANY),
    "cents of what no money is": ({"multipleOf": 0.01}, [1e308] * MANY),
    "an enum of fractions": ({"enum": [n + 0.5 for n in range(900)]}, [899.5] * MANY),
    "an enum of integers and fractions": ({"enum": [*range(400), 0.5]}, [0.5] * MANY),
    "a constant full of fractions": ({"const": [0.5] * 500}, [[0.5] * 500] * 400),
    "an enum of integers of 64 bits without a sign": (
        {"enum": [2**63 + n for n in range(900)]},
        [2**63 + 899] * 45_000,
    ),
    "bounds that are fractions": ({"minimum": 1e-300, "maximum": 1.5}, [0.25] * MANY),
    "many bounds of huge integers": ({"allOf": [{"minimum": n} for n in range(500)]}, [10**4000] * 200),
    "types of huge integers": ({"allOf": [{"type": "number"}] * 500}, [10**4000] * 200),
    "alternatives for huge integers": ({"anyOf": [{"const": 10**300 + n} for n in range(500)]}, [10**4000] * 200),
}


@each(("schema", "values"), COSTLY)
def test_numbers_that_are_compared_slowly_hold_nobody_up(schema: Json, values: list[Any]) -> None:
    validator = VALIDATORS.compile({"items": schema})
    with quickly(0.4):
        validator.is_valid(values)
        validator.faults(values)


@each("values", {
    "integers": [10**300 + n for n in range(3_000)],
    "of the least size": [2**63 + n for n in range(45_000)],
    "within lists": [[10**20 + n] for n in range(30_000)],
    "within objects": [{"a": -(10**3_000) - n} for n in range(300)],
    "beside fractions": [[0.5, -(2**63) - 1 - n] for n in range(30_000)],
})  # fmt: skip
def test_huge_integers_that_must_differ_from_each_other_hold_nobody_up(values: list[Any]) -> None:
    validator = VALIDATORS.compile({"uniqueItems": True, "minItems": 2})
    with quickly(0.4):
        assert validator.is_valid(values)
    assert not validator.is_valid([10**20, 10**20])
    assert not validator.is_valid(["a"] * MANY)


def test_a_few_of_them_are_compared_exactly() -> None:
    validator = VALIDATORS.compile({"items": {"multipleOf": 0.01, "maximum": 10**4000, "minimum": -1e300}})
    assert validator.is_valid([1.25, 1e300, 10**4000, 0.07])
    assert not validator.is_valid([1.255])
    assert not validator.is_valid([10**4000 + 1])
    assert not validator.is_valid([-(10**301)])


def test_numbers_too_many_to_be_compared_are_checked_for_all_else() -> None:
    validator = VALIDATORS.compile({"items": {"type": "number", "multipleOf": 0.01}, "minItems": 2})
    assert not validator.is_valid([0.005])
    assert validator.is_valid([0.005] * MANY)
    assert not validator.is_valid([*[0.005] * MANY, "x"])


def test_many_plain_integers_are_compared_all_the_same() -> None:
    validator = VALIDATORS.compile({"items": {"type": "integer", "minimum": 0, "multipleOf": 5, "enum": [0, 5, 10]}})
    with quickly(0.4):
        assert validator.is_valid([5] * MANY)
        assert not validator.is_valid([*[5] * MANY, 4])


NAMES = [f"p{n}" for n in range(400)]
ONE_BY_ONE: dict[str, tuple[Json, Any]] = {
    "names that depend on others": ({"dependentRequired": {name: ["a"] for name in NAMES}}, {}),
    "names that others depend on": ({"dependentRequired": {"a": NAMES}}, {}),
    "an enum of several types": ({"enum": [*NAMES, 1, None]}, None),
}


@each(("schema", "item"), ONE_BY_ONE)
def test_what_is_looked_for_one_by_one_counts(schema: Json, item: Any) -> None:
    validator = VALIDATORS.compile({"items": schema})
    with quickly(0.4):
        assert not validator.is_valid([item] * MANY)
        assert validator.faults([item] * MANY) == [TOO_LARGE]
    assert validator.is_valid([item] * 1000)


@each(
    ("schema", "expected"),
    [
        ({}, (0, 0)),
        ({"minimum": 0, "exclusiveMaximum": 2**63 - 1}, (2, 0)),
        ({"multipleOf": 0.5}, (2, 2 * weight_of(0.5))),
        ({"enum": ["a", None, True, [1, {"a": 2.5}]]}, (2, EQUALITY + weight_of(2.5))),
        ({"const": {"a": {"b": 7}}}, (1, EQUALITY)),
        ({"enum": [1, 2, 3]}, (3, 0)),
        ({"minItems": 3, "default": 1.5, "properties": {"minimum": {"const": 1}}}, (0, 0)),
    ],
)
def test_numbers_of_a_schema_are_those_that_values_are_compared_with(schema: Json, expected: tuple[int, int]) -> None:
    assert weigh_literals(schema) == expected


def test_numbers_weigh_what_they_cost_to_compare() -> None:
    assert weight_of(-(2**63)) == weight_of(7) == 0
    assert weight_of(0.0) == weight_of(-12.5) < weight_of(1e-300) == weight_of(-1e300)
    assert weight_of(2**70) < weight_of(10**300) < weight_of(-(10**4000))


NUMBERS = st.sampled_from([0, 1, 2, 0.5, 1.0, 10**30, 1e300, -3])
PLAIN = NUMBERS | st.sampled_from(["a", None])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "enum": st.lists(PLAIN, min_size=1, max_size=3),
        "const": PLAIN,
        "type": st.sampled_from(["number", "integer", "array", "object"]),
    },
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "not": inner,
            "if": inner,
            "then": inner,
            "contains": inner,
            "maxContains": st.just(1),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "items": inner,
            "properties": st.dictionaries(st.sampled_from(["a", "const", "minimum"]), inner, max_size=2),
            "unevaluatedProperties": inner | st.booleans(),
        },
    ),
    max_leaves=5,
)
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(st.sampled_from(["a", "const"]), PLAIN, max_size=2)


def has_numbers(schema: Any) -> bool:
    """Whether a subschema of those that :data:`SCHEMAS` makes has numbers to compare with."""
    if isinstance(schema, list):
        return any(map(has_numbers, schema))
    if not isinstance(schema, dict):
        return False
    return any(
        any(map(has_numbers, content.values())) if keyword == "properties" else compares_numbers(keyword, content) or
        (keyword not in ("enum", "const") and has_numbers(content))
        for keyword, content in schema.items()
    )  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(schema=SCHEMAS, value=VALUES)
def test_a_schema_without_its_numbers_accepts_at_least_what_the_whole_accepts(schema: Json, value: Any) -> None:
    relaxed = remove_patterns_and_numbers(schema)
    assert not has_numbers(relaxed)
    if jsonschema.Draft202012Validator(schema, registry=referencing.Registry()).is_valid(value):
        assert jsonschema.Draft202012Validator(relaxed, registry=referencing.Registry()).is_valid(value)
        assert VALIDATORS.compile(relaxed).is_valid(value)
