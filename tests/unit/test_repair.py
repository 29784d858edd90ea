"""Texts in arguments become the values that they spell, only where nothing else can be meant."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway import jsonrpc
from gateway.model import Binding, Structure, Tool
from gateway.schema.repair import note_nulls, repair_arguments
from gateway.schema.validation import ValidatorCache
from tests.each import each
from tests.tables import each_row

VALIDATORS: Final = ValidatorCache()
MOST: Final = 2**53
NODE: Final = {"type": "object", "properties": {"size": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}


def tool_with(schema: dict[str, Any], *, coerces: bool = True) -> Tool:
    return Tool("t", "t", "t", schema, Binding("t", Structure.BY_NAME), coerces=coerces)


def repaired(schema: Any, value: Any, *, coerces: bool = True) -> Any:
    """Return what becomes of one argument ``x``, None where the call is refused."""
    whole = {"type": "object", "properties": {"x": schema}, "$defs": {"node": NODE}}
    tool = tool_with(whole, coerces=coerces)
    assert not VALIDATORS.compile(whole).is_valid({"x": value})
    found = repair_arguments(tool, {"x": value}, VALIDATORS, lambda _: True)
    return None if found is None else found[0]["x"]


INTEGER: Final = {"type": "integer"}
OBJECT: Final = {"type": "object"}


@each_row
def test_a_text_becomes_the_value_that_it_spells(schema: Any, text: Any, expected: Any) -> None:
    found = repaired(schema, text)
    assert jsonrpc.encode(found) == jsonrpc.encode(expected)  # 1 and true are equal in Python
    assert repaired(schema, text, coerces=False) is None


@each(
    ("schema", "text"),
    [
        *(
            (INTEGER, text)
            for text in ("5.0", "1e3", "+5", "05", "-0", "", " 5", "5 ", "\u0665", "5\n", "0x5", "true", "five")
        ),
        *((INTEGER, str(number)) for number in (MOST + 1, -MOST - 1, 10**40)),
        *(({"type": "boolean"}, text) for text in ("True", "1", "0", "yes", "null", " true")),
        *(({"type": "number"}, text) for text in ("1.5", "NaN", "1e400")),
        (OBJECT, "[1]"),
        (OBJECT, '{"a":1} trailing'),
        (OBJECT, '{"a":1,"a":2}'),
        (OBJECT, '{"a":NaN}'),
        (OBJECT, "{'a': 1}"),
        (OBJECT, '{"a":' * 65 + "1" + "}" * 65),
        ({"type": "array"}, "[" + "[]," * 50_000 + "[]]"),
        ({"type": "null"}, "null"),
        (False, "5"),
    ],
)
def test_another_text_stays_and_the_call_is_refused(schema: Any, text: Any) -> None:
    assert repaired(schema, text) is None


@each_row
def test_where_the_schema_may_take_a_text_it_stays(schema: Any, text: Any) -> None:
    assert repaired(schema, text) is None


def test_all_or_nothing_is_repaired() -> None:
    whole = {"properties": {"a": INTEGER, "b": INTEGER, "c": INTEGER}, "required": ["a"]}
    tool = tool_with(whole)

    def found(**arguments: Any) -> Any:
        return repair_arguments(tool, arguments, VALIDATORS, lambda _: True)

    assert found(a="1", b="2") == ({"a": 1, "b": 2}, 2)
    assert found(a="1", b="two") is None
    assert found(a="1", c=None) == ({"a": 1}, 1)
    assert found(a=1, c=None) == ({"a": 1}, 0)
    assert found(a=None) is None


def test_a_null_of_a_member_is_left_out_and_nothing_that_is_unknown() -> None:
    inner = {"type": "object", "properties": {"n": INTEGER, "m": INTEGER}, "required": ["n"]}
    tool = tool_with({"properties": {"x": inner, "y": {"anyOf": [inner, {"type": "array"}]}}})

    def found(**arguments: Any) -> Any:
        return repair_arguments(tool, arguments, VALIDATORS, lambda _: True)

    assert found(x={"n": 1, "m": None}) == ({"x": {"n": 1}}, 0)
    assert found(x={"n": "1", "m": None}) == ({"x": {"n": 1}}, 1)
    assert found(y={"n": 1, "m": None}) == ({"y": {"n": 1}}, 0)
    assert found(x={"n": None}) is None
    closed = tool_with({"properties": {"x": {"type": "object", "additionalProperties": False}}})
    assert repair_arguments(closed, {"x": {"z": None}}, VALIDATORS, lambda _: True) is None


@each(
    ("schema", "value"),
    [
        ({"additionalProperties": INTEGER}, {"env": None}),
        ({"patternProperties": {"^e": INTEGER}}, {"env": None}),
        ({"properties": {"env": {"additionalProperties": INTEGER}}}, {"env": {"env": None}}),
    ],
)
def test_null_for_an_entry_of_a_map_may_say_that_it_goes_and_stays(schema: Any, value: Any) -> None:
    assert repaired({"type": "object", **schema}, value) is None
    assert repair_arguments(tool_with(schema), value, VALIDATORS, lambda _: True) is None


def test_a_null_that_one_alternative_takes_stays_where_another_is_left_out() -> None:
    number_or_null = {"properties": {"a": {"type": ["integer", "null"]}, "b": INTEGER}}
    number = {"properties": {"a": INTEGER, "b": INTEGER}}
    assert repaired({"anyOf": [number_or_null, number]}, {"a": None, "b": None}) == {"a": None}
    assert repaired({"anyOf": [number, number_or_null]}, {"a": None, "b": None}) == {"a": None}
    either = [
        {"properties": {"a": INTEGER, "b": {"type": "null"}}},
        {"properties": {"b": INTEGER, "a": {"type": "null"}}},
    ]
    assert repaired({"anyOf": either}, {"a": None, "b": None}) is None  # which one is meant?


def test_many_nulls_of_one_object_are_left_out() -> None:
    filters = {f"f{number}": INTEGER for number in range(60)}
    assert repaired({"properties": filters}, dict.fromkeys(filters) | {"f1": 1}) == {"f1": 1}


def test_the_note_on_nulls_names_what_only_a_part_of_the_schema_has() -> None:
    tool = tool_with({"allOf": [{"properties": {"z": INTEGER}}]})
    assert repair_arguments(tool, {"z": None}, VALIDATORS, lambda _: True) == ({}, 0)
    assert note_nulls(tool, ["z"]) == "; z: null was left out"
    of_a_keyword = tool_with({"dependentSchemas": {"properties": {"required": ["a"]}}})
    assert repair_arguments(of_a_keyword, {"properties": None}, VALIDATORS, lambda _: True) is None


def test_what_takes_long_or_has_no_memory_is_not_repaired() -> None:
    tool = tool_with({"properties": {"x": {"type": "array", "items": INTEGER}}})
    assert repair_arguments(tool, {"x": ["1"] * 20}, VALIDATORS, lambda _: True) == ({"x": [1] * 20}, 20)
    for many in (21, 1_000_000):
        assert repair_arguments(tool, {"x": ["1"] * many}, VALIDATORS, lambda _: True) is None
    assert repair_arguments(tool, {"x": "[1,2]"}, VALIDATORS, lambda size: size < 100) is None
    assert repair_arguments(tool, {"x": "[1,2]"}, VALIDATORS, lambda size: size < 1000) is not None


names = st.sampled_from(["a", "b"])
literals = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "5", "-0", "true", "1.0"])
values = st.recursive(
    literals, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2), max_leaves=6
)
texts = values.map(json.dumps) | st.sampled_from(["true", "7", "-1", "05", str(MOST + 1)])
sent = st.recursive(
    literals | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=6,
)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
schemas = st.recursive(
    st.booleans()
    | st.builds(lambda kind: {"type": kind}, kinds | st.lists(kinds, min_size=1, max_size=2, unique=True))
    | st.builds(lambda enum: {"enum": enum}, st.lists(literals, min_size=1, max_size=3))
    | st.just({"$ref": "#/$defs/d"}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "type": kinds,
        },
    ),
    max_leaves=6,
)


def spelled(before: Any, after: Any) -> int:
    """Return how many texts became values; fail where anything else differs."""
    if isinstance(before, str) and not isinstance(after, str):
        assert type(after) in (bool, int, list, dict)
        if type(after) in (bool, int):
            assert before == json.dumps(after)
            assert type(after) is bool or abs(after) <= MOST
        else:
            assert json.loads(before) == after
        return 1
    assert type(before) is type(after)
    if isinstance(before, dict):
        assert list(after) == [name for name in before if name in after]
        assert all(before[name] is None for name in before.keys() - after.keys())
        return sum(spelled(before[name], after[name]) for name in after)
    if isinstance(before, list):
        assert len(before) == len(after)
        return sum(spelled(*pair) for pair in zip(before, after, strict=True))
    assert before == after
    return 0


def kind_of(value: Any) -> dict[str, Any]:
    kinds = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object", type(None): "null"}
    return {"type": kinds[type(value)]}


likely = st.recursive(
    values.map(lambda value: (kind_of(value), json.dumps(value))),
    lambda inner: (
        st.builds(lambda one, other: ({"anyOf": [one[0], other]}, one[1]), inner, schemas)
        | st.builds(lambda one, other: ({"oneOf": [other, one[0]]}, one[1]), inner, schemas)
        | st.builds(lambda one, other: ({"allOf": [one[0], other]}, one[1]), inner, schemas)
        | inner.map(lambda one: ({"type": "array", "items": one[0]}, [one[1], one[1]]))
        | inner.map(lambda one: ({"type": "object", "properties": {"a": one[0]}}, {"a": one[1]}))
    ),
    max_leaves=3,
)
"""Schemas beside what they may accept once it is repaired: most other pairs have nothing to do with each other."""
calls = st.dictionaries(names, likely | st.tuples(schemas, sent | st.none()), min_size=1, max_size=2)


@given(calls, schemas)
def test_repaired_arguments_are_valid_and_say_what_was_sent(call: dict[str, tuple[Any, Any]], definition: Any) -> None:
    properties = {name: schema for name, (schema, _) in call.items()}
    arguments = {name: value for name, (_, value) in call.items()}
    schema = {"type": "object", "properties": properties, "$defs": {"d": definition}}
    if "$ref" in json.dumps(definition):
        schema["$defs"] = {"d": {"type": "integer"}}
    oracle = Draft202012Validator(schema)
    if VALIDATORS.compile(schema).is_valid(arguments):
        return
    found = repair_arguments(tool_with(schema), arguments, VALIDATORS, lambda _: True)
    if found is None:
        return
    after, count = found
    assert oracle.is_valid(after)
    left_out = arguments.keys() - after.keys()
    assert all(arguments[name] is None and not oracle.is_valid({name: None}) for name in left_out)
    assert spelled({name: arguments[name] for name in after}, dict(after)) == count
    assert repair_arguments(tool_with(schema, coerces=False), arguments, VALIDATORS, lambda _: True) in (
        None,
        (after, 0),
    )
