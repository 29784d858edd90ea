"""Names of arguments that LLM APIs take, and the way back to the method's own."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.names import publish_names
from tests.each import each

STRING = {"type": "string"}
NUMBER = {"type": "number"}
SUITS = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def schema_of(*names: str, **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, STRING), **members}


def test_names_that_suit_leave_the_schema_alone() -> None:
    schema = schema_of("a", "b.c", "d-e_f", "x" * 64, required=["a"])
    assert publish_names(schema) == (schema, {})


@each(
    ("name", "shown"),
    [("Transaction hash", "Transaction_hash"), ("$filter", "filter"), ("a/b[c]", "a_b_c"), ("größe", "gr_e")],
)
def test_a_name_that_does_not_suit_is_made_to(name: str, shown: str) -> None:
    schema, renamed = publish_names(schema_of(name, "other", required=[name]))
    assert schema == schema_of(shown, "other", required=[shown])
    assert renamed == {shown: name}


def test_the_order_of_arguments_stays() -> None:
    schema, _ = publish_names(schema_of("z y", "a", "b c"))
    assert list(schema["properties"]) == ["z_y", "a", "b_c"]


@each("name", ["日本", "", "x" * 65])
def test_what_is_lost_is_made_up_for_by_a_suffix(name: str) -> None:
    ((shown, own),) = publish_names(schema_of(name))[1].items()
    assert own == name
    assert SUITS.fullmatch(shown)


def test_names_that_would_meet_are_told_apart_whatever_their_order() -> None:
    names = ["a b", "a/b", "a_b"]
    found = [publish_names(schema_of(*order))[1] for order in (names, names[::-1])]
    assert found[0] == found[1]
    assert set(found[0].values()) == {"a b", "a/b"}
    assert "a_b" not in found[0]


def test_a_name_keeps_its_new_one_when_others_come_and_go() -> None:
    for others in (("b",), ("c d", "e"), ()):
        assert publish_names(schema_of(*others, "$a"))[1]["a"] == "$a"


def test_every_place_that_speaks_of_the_same_object_follows() -> None:
    schema, _ = publish_names(
        schema_of(
            "a b",
            "c d",
            dependentRequired={"a b": ["c d"]},
            dependentSchemas={"c d": {"properties": {"a b": NUMBER}}},
            anyOf=[{"required": ["a b"]}, {"required": ["c d"]}],
        )
        | {"if": {"properties": {"a b": {"const": "x y"}}}, "then": {"required": ["c d"]}, "not": {"required": ["no"]}}
    )
    assert schema == schema_of(
        "a_b",
        "c_d",
        dependentRequired={"a_b": ["c_d"]},
        dependentSchemas={"c_d": {"properties": {"a_b": NUMBER}}},
        anyOf=[{"required": ["a_b"]}, {"required": ["c_d"]}],
    ) | {"if": {"properties": {"a_b": {"const": "x y"}}}, "then": {"required": ["c_d"]}, "not": {"required": ["no"]}}


def test_names_within_arguments_are_the_methods_business() -> None:
    inner = {"type": "object", "properties": {"x y": STRING}, "required": ["x y"]}
    schema, _ = publish_names({"type": "object", "properties": {"a b": inner}})
    assert schema["properties"] == {"a_b": inner}


@each(
    "members",
    [{"propertyNames": {"pattern": " "}}, {"patternProperties": {" ": STRING}}, {"allOf": [{"$ref": "#/$defs/x"}]}],
)
def test_a_schema_whose_meaning_would_change_stays_as_it_is(members: dict[str, Any]) -> None:
    schema = schema_of("a b", **members)
    assert publish_names(schema) == (schema, {})


@given(st.dictionaries(st.text(max_size=70), st.integers(), max_size=6), st.data())
def test_every_set_of_names_has_a_way_there_and_back(values: dict[str, int], data: st.DataObject) -> None:
    required = data.draw(st.lists(st.sampled_from(sorted(values)), unique=True)) if values else []
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in values}, "required": required}
    schema["additionalProperties"] = False
    shown, renamed = publish_names(schema)
    assert all(SUITS.fullmatch(name) for name in shown["properties"])
    back = {own: new for new, own in renamed.items()}
    arguments = {back.get(name, name): value for name, value in values.items()}
    jsonschema.Draft202012Validator(shown).validate(arguments)
    assert {renamed.get(name, name): value for name, value in arguments.items()} == values
