"""From arguments by name to the ``params`` that a method takes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.backend.params import build_params
from gateway.errors import InvalidArguments
from gateway.model import Binding, Structure
from tests.tables import each_row

BY_NAME = Binding("m", Structure.BY_NAME, ("a", "b"))
BY_POSITION = Binding("m", Structure.BY_POSITION, ("a", "b", "c"), gap_values={"b": 7})
HEADINGS = Binding("m", Structure.BY_POSITION, ("Block hash", "b"), own_names={"Block_hash": "Block hash"})


@each_row
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
