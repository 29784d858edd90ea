"""A bound on what checking a value can cost, itself taken in no time."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.schema.cost import MAX_APPLICATORS, MAX_CHAIN, MAX_REEVALUATIONS, TooCostly, measure_cost
from tests.pace import quickly
from tests.tables import each_row_and

Json = dict[str, Any]


def definitions(names: int, make: Any) -> Json:
    """``$defs`` S0 … Sn, each made from a reference to the next one, and a root that refers to the first."""
    made = {f"S{i}": make({"$ref": f"#/$defs/S{i + 1}"}) for i in range(names)}
    return {"$ref": "#/$defs/S0", "$defs": {**made, f"S{names}": {"type": "string"}}}


def asking_again(levels: int, make: Any) -> Json:
    schema: Json = {"type": "object"}
    for _ in range(levels):
        schema = {**make(schema), "unevaluatedProperties": False}
    return schema


COSTLY = {
    "a ladder of allOf": definitions(25, lambda ref: {"allOf": [ref, ref]}),
    "a ladder of anyOf": definitions(25, lambda ref: {"anyOf": [ref, ref]}),
    "a ladder of oneOf, if and not": definitions(25, lambda ref: {"oneOf": [ref], "if": ref, "then": True, "not": ref}),
    "a ladder of dependentSchemas": definitions(25, lambda ref: {"dependentSchemas": {"a": ref, "b": ref}}),
    "a ladder of $ref and allOf": definitions(25, lambda ref: {**ref, "allOf": [ref]}),
    "a very long ladder": definitions(150, lambda ref: {"anyOf": [ref] * 3}),
    "a ladder within an item": {
        "items": definitions(25, lambda ref: {"anyOf": [ref, ref]})["$defs"] and {"$ref": "#/$defs/S0"},
        **definitions(25, lambda ref: {"anyOf": [ref, ref]}),
    },
    "a chain of references longer than any stack": definitions(1500, lambda ref: ref),
    "a chain of nested combinations": definitions(1500, lambda ref: {"allOf": [ref]}),
    "nested alternatives that are asked again what they evaluated": asking_again(7, lambda inner: {"anyOf": [inner]}),
    "what is asked again on each level of the value": asking_again(
        MAX_REEVALUATIONS + 1, lambda inner: {"anyOf": [{"properties": {"a": inner}}]}
    ),
    "an enum of many objects": {"items": {"enum": [{"a": n} for n in range(MAX_APPLICATORS // 2)]}},
    "more alternatives than the bound": {"anyOf": [{"const": n} for n in range(MAX_APPLICATORS + 1)]},
}


@each_row_and(COSTLY)
def test_what_could_take_long_is_refused_at_once(schema: Json) -> None:
    with quickly(), pytest.raises(TooCostly, match=r"."):
        measure_cost(schema)


def _tree(depth: int) -> Json:
    return {"type": "object", "properties": {"left": _tree(depth - 1), "right": _tree(depth - 1)}} if depth else {}


FINE = {
    "a binary tree written out": (_tree(9), 1),
    "alternatives up to the bound": ({"anyOf": [{}] * (MAX_APPLICATORS - 1)}, MAX_APPLICATORS),
    "a long chain through properties": (definitions(800, lambda ref: {"properties": {"a": ref}}), 2),
    "a long chain through items": (definitions(800, lambda ref: {"items": ref}), 2),
    "a chain of references": (definitions(MAX_CHAIN - 2, lambda ref: ref), MAX_CHAIN),
    "two thousand properties": ({"properties": {f"p{n}": {"type": "string"} for n in range(2000)}}, 1),
    "what is asked again up to the bound": (
        asking_again(MAX_REEVALUATIONS, lambda inner: {"anyOf": [{"properties": {"a": inner}}]}),
        4,
    ),
    "an enum of many plain values": ({"enum": list(range(5000))}, 1),
}


@each_row_and(FINE)
def test_what_is_ordinary_passes_with_its_breadth(schema: Json, count: int) -> None:
    with quickly(0.25 if len(str(schema)) > 20_000 else 0.05):
        assert measure_cost(schema).breadth == count


def test_a_thousand_doublings_without_recursion_are_still_refused_only_for_what_applies_at_once() -> None:
    each_level_twice = definitions(20, lambda ref: {"allOf": [{"properties": {"a": ref}}, {"properties": {"a": ref}}]})
    with quickly(), pytest.raises(TooCostly, match="multiply"):
        measure_cost(each_level_twice)
