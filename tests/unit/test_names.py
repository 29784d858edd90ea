"""Tool names: valid, unique, and the same whatever the order in which methods are listed."""

from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.names import MAX_LENGTH, assign, is_valid, suits_llm_apis


def digest(method: str) -> str:
    return hashlib.sha256(method.encode()).hexdigest()[:8]


@pytest.mark.parametrize("method", ["a", "node.list", "eth_call", "A-b_C.9", "x" * 128, "."])
def test_a_valid_name_stays_as_it_is(method: str) -> None:
    assert assign([method], {}) == {method: method}


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("textDocument/hover", "textDocument_hover"),
        ("$/cancel", "cancel"),
        ("a  b", "a_b"),
        ("a\r\nX: y", "a_X_y"),
        ("../etc/passwd", ".._etc_passwd"),
        ("naïve", "na_ve"),
        ("plugin::list()", "plugin_list"),
    ],
)
def test_what_is_invalid_becomes_an_underscore(method: str, name: str) -> None:
    assert assign([method], {}) == {method: name}


@pytest.mark.parametrize("method", ["", "😀", "日本", "///", "\u202e"])
def test_a_name_without_any_valid_character_gets_one_of_its_own(method: str) -> None:
    assert assign([method], {}) == {method: f"method_{digest(method)}"}


def test_a_long_name_is_cut_and_stays_unique() -> None:
    long = ["x" * 200, "x" * 201, "x" * 128 + "/y"]
    names = assign(long, {})
    assert len(set(names.values())) == 3
    assert all(len(name) == MAX_LENGTH and is_valid(name) for name in names.values())
    assert names[long[0]].endswith("_" + digest(long[0]))


def test_in_a_collision_the_valid_name_wins_and_the_other_gets_a_suffix() -> None:
    assert assign(["a/b", "a_b", "a b"], {}) == {
        "a_b": "a_b",
        "a b": f"a_b_{digest('a b')}",
        "a/b": f"a_b_{digest('a/b')}",
    }


def test_names_that_differ_in_case_are_two() -> None:
    assert assign(["Ping", "ping"], {}) == {"Ping": "Ping", "ping": "ping"}


def test_the_operators_names_come_first() -> None:
    assert assign(["a", "b"], {"b": "a"}) == {"b": "a", "a": f"a_{digest('a')}"}


def test_two_methods_given_one_name_both_get_one() -> None:
    names = assign(["x", "y"], {"x": "same", "y": "same"})
    assert names == {"x": "same", "y": f"same_{digest('y')}"}


def test_a_name_that_looks_like_a_suffixed_one_is_not_given_twice() -> None:
    squatter = f"a_b_{digest('a/b')}"
    names = assign(["a_b", "a/b", squatter], {})
    assert names[squatter] == squatter
    assert len(set(names.values())) == 3


METHODS = st.lists(
    st.text("ab/_. é😀", max_size=140) | st.sampled_from(["a/b", "a_b", "a.b", "a b", "x" * 130]), max_size=12
)


@given(METHODS, st.randoms(use_true_random=False))
def test_names_are_valid_unique_and_equal_under_any_order(methods: list[str], chance: random.Random) -> None:
    names = assign(methods, {})
    assert set(names) == set(methods)
    assert len(set(names.values())) == len(names)
    assert all(is_valid(name) for name in names.values())
    chance.shuffle(methods)
    assert assign(methods, {}) == names


def test_the_stricter_rule_of_llm_apis_is_told() -> None:
    assert suits_llm_apis("node_list-2")
    assert not suits_llm_apis("node.list")
    assert not suits_llm_apis("x" * 65)
