"""From arguments by name to the ``params`` that a method takes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.backend.params import build_params
from gateway.errors import InvalidArguments
from gateway.model import Binding, Structure
from tests.each import each

BY_NAME = Binding("m", Structure.BY_NAME, ("a", "b"))
BY_POSITION = Binding("m", Structure.BY_POSITION, ("a", "b", "c"), gap_values={"b": 7})
NOTHING_DECLARED = Binding("m", Structure.BY_NAME, declares_parameters=False)
NONE_BY_POSITION = Binding("m", Structure.BY_POSITION, declares_parameters=False)
HEADINGS = Binding("m", Structure.BY_POSITION, ("Block hash", "b"), own_names={"Block_hash": "Block hash"})
DOLLAR = Binding(
    "m",
    Structure.BY_NAME,
    ("$top", "b"),
    own_names={"top": "$top"},
    fixed_arguments={"key": 1},
    default_arguments={"b": 2},
)
SPREAD = Binding("m", Structure.BY_POSITION, spread_argument="params")

IN_LIST = Binding("m", Structure.BY_NAME_IN_LIST, ("a", "b"))
NONE_IN_LIST = Binding("m", Structure.BY_NAME_IN_LIST, declares_parameters=False)
SENT = Binding("m", Structure.BY_POSITION, ("a", "b", "c", "d"), sent={"b": 2, "d": 4}, gap_values={"b": 2, "d": 4})
ALL_SENT = Binding("m", Structure.BY_POSITION, ("a", "b"), sent={"a": 1, "b": 2}, default_arguments={"b": 7})
SENT_BY_NAME = Binding("m", Structure.BY_NAME, ("a", "b", "c"), sent={"b": 2, "c": 3}, fixed_arguments={"c": 9})

CALLS = {
    "by name, as given": (BY_NAME, {"b": 1}, {"b": 1}),
    "by name, empty but declared": (BY_NAME, {}, {}),
    "by position, in the listing's order": (BY_POSITION, {"c": 3, "a": 1, "b": 2}, [1, 2, 3]),
    "by position, up to the last one given": (BY_POSITION, {"a": 1}, [1]),
    "by position, empty but declared": (BY_POSITION, {}, []),
    "a gap gets its default": (BY_POSITION, {"a": 1, "c": 3}, [1, 7, 3]),
    "a null is a value and no gap": (BY_POSITION, {"a": 1, "b": None, "c": 3}, [1, None, 3]),
    "nothing declared: no such member": (NOTHING_DECLARED, {}, None),
    "nothing declared by position either": (NONE_BY_POSITION, {}, None),
    "parameters unknown: as one array": (SPREAD, {"params": [1, [2]]}, [1, [2]]),
    "parameters unknown: as one object": (SPREAD, {"params": {"a": 1}}, {"a": 1}),
    "parameters unknown, none given": (SPREAD, {}, []),
    "what is published under another name goes out under the method's": (
        DOLLAR,
        {"top": 5},
        {"$top": 5, "b": 2, "key": 1},
    ),
    "and keeps its place": (HEADINGS, {"b": 2, "Block_hash": "0x"}, ["0x", 2]),
    "one object in a list": (IN_LIST, {"b": 1}, [{"b": 1}]),
    "one object in a list, empty but declared": (IN_LIST, {}, [{}]),
    "one object in a list, nothing declared": (NONE_IN_LIST, {}, None),
    "defaults to be sent, by position": (SENT, {"a": 1}, [1, 2]),
    "none before what has no value": (SENT, {}, []),
    "defaults to be sent, up to the last": (SENT, {"a": 1, "c": 3}, [1, 2, 3, 4]),
    "defaults alone, the operator's first": (ALL_SENT, {}, [1, 7]),
    "defaults to be sent, by name": (SENT_BY_NAME, {"a": 1, "b": 5}, {"a": 1, "b": 5, "c": 9}),
    "defaults to be sent, by name alone": (SENT_BY_NAME, {}, {"b": 2, "c": 9}),
}


@each(("binding", "arguments", "params"), CALLS)
def test_params_have_the_shape_that_the_method_takes(binding: Binding, arguments: dict[str, Any], params: Any) -> None:
    assert build_params(binding, arguments) == params


def test_a_gap_without_a_default_takes_null_where_the_schema_does() -> None:
    binding = Binding("m", Structure.BY_POSITION, ("a", "b"), gap_values={"a": None})
    assert build_params(binding, {"b": 2}) == [None, 2]


def test_a_gap_that_nothing_may_fill_is_refused_rather_than_shifted() -> None:
    with pytest.raises(InvalidArguments, match="'a' must be given because 'c' comes after it"):
        build_params(BY_POSITION, {"c": 3})


def test_a_gap_is_refused_in_the_names_that_the_caller_knows() -> None:
    with pytest.raises(InvalidArguments, match="'Block_hash' must be given because 'b' comes after it"):
        build_params(HEADINGS, {"b": 2})


def test_an_argument_without_a_place_is_refused_rather_than_lost() -> None:
    with pytest.raises(InvalidArguments, match="'d' has no place"):
        build_params(BY_POSITION, {"a": 1, "d": 4})


def test_another_shape_can_be_asked_for() -> None:
    assert build_params(BY_NAME, {"b": 2, "a": 1}, Structure.BY_POSITION) == [1, 2]
    assert build_params(BY_POSITION, {"c": 2}, Structure.BY_NAME) == {"c": 2}


def test_published_names_and_the_methods_own_translate_both_ways() -> None:
    assert HEADINGS.published_order == ("Block_hash", "b")
    assert HEADINGS.publish_params({"Block hash": 1, "b": 2}) == {"Block_hash": 1, "b": 2}
    assert HEADINGS.publish_params({"Block_hash": 1}) == {"Block_hash": 1}


def test_params_are_a_copy_that_leaves_the_arguments_alone() -> None:
    arguments = {"a": 1}
    params = build_params(BY_NAME, arguments)
    assert params is not arguments
