"""Tool names: valid, unique, and the same whatever the order in which methods are listed."""

from __future__ import annotations

import hashlib
import random

from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog import names
from gateway.catalog.names import NAME_RULES
from gateway.model import NameStyle
from tests.each import each

MCP, LLM = NAME_RULES[NameStyle.MCP], NAME_RULES[NameStyle.LLM]
MAX_LENGTH = 128


def digest(method: str) -> str:
    return hashlib.sha256(method.encode()).hexdigest()[:8]


def assign(methods: list[str], chosen: dict[str, str]) -> dict[str, str]:
    """MCP's name of each."""
    return {method: both[NameStyle.MCP] for method, both in names.assign_names(methods, chosen).items()}


def assign_llm(methods: list[str], chosen: dict[str, str]) -> dict[str, str]:
    """The name of each for LLM APIs."""
    return {method: both[NameStyle.LLM] for method, both in names.assign_names(methods, chosen).items()}


@each("method", ["a", "node.list", "eth_call", "A-b_C.9", "x" * 128, "."])
def test_a_valid_name_stays_as_it_is(method: str) -> None:
    assert assign([method], {}) == {method: method}


@each(
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


@each("method", ["", "😀", "日本", "///", "\u202e"])
def test_a_name_without_any_valid_character_gets_one_of_its_own(method: str) -> None:
    assert assign([method], {}) == {method: f"method_{digest(method)}"}


def test_a_long_name_is_cut_and_stays_unique() -> None:
    long = ["x" * 200, "x" * 201, "x" * 128 + "/y"]
    given = assign(long, {})
    assert len(set(given.values())) == 3
    assert all(len(name) == MAX_LENGTH and MCP.accepts(name) for name in given.values())
    assert given[long[0]].endswith("_" + digest(long[0]))


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
    given = assign(["x", "y"], {"x": "same", "y": "same"})
    assert given == {"x": "same", "y": f"same_{digest('y')}"}


def test_a_name_that_looks_like_a_suffixed_one_is_not_given_twice() -> None:
    squatter = f"a_b_{digest('a/b')}"
    given = assign(["a_b", "a/b", squatter], {})
    assert given[squatter] == squatter
    assert len(set(given.values())) == 3


def test_a_chosen_name_with_a_foreign_character_is_made_valid() -> None:
    assert assign(["x"], {"x": "shop_a/b"}) == {"x": "shop_a_b"}


# --- names for LLM APIs ---------------------------------------------------------------------------------------

LONG = "very.long." * 8


@each(
    ("method", "name"),
    [
        ("node_list-2", "node_list-2"),
        ("node.list", "node_list"),
        ("textDocument/hover", "textDocument_hover"),
        ("...", f"method_{digest('...')}"),
        ("日本", f"method_{digest('日本')}"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 55 + "_" + digest("x" * 65)),
        (LONG, LONG.replace(".", "_")[:55] + "_" + digest(LONG)),
    ],
)
def test_an_llm_name_is_the_nearest_one_that_suits(method: str, name: str) -> None:
    assert assign_llm([method], {}) == {method: name}
    assert len(name) <= 64


def test_an_llm_name_that_was_always_one_goes_before_one_that_is_made() -> None:
    assert assign_llm(["a.b", "a_b", "a/b"], {}) == {
        "a_b": "a_b",
        "a/b": f"a_b_{digest('a/b')}",
        "a.b": f"a_b_{digest('a.b')}",
    }


def test_an_operators_name_is_made_to_suit_llm_apis_too() -> None:
    assert assign_llm(["x", "y"], {"x": "my.shop"}) == {"x": "my_shop", "y": "y"}


def test_long_names_that_part_late_stay_apart_within_the_bound() -> None:
    long = ["a." * 40 + "x", "a." * 40 + "y", "a_" * 40]
    given = assign_llm(long, {})
    assert len(set(given.values())) == 3
    assert all(LLM.accepts(name) for name in given.values())


METHODS = st.lists(
    st.text("ab/_. é😀", max_size=140)
    | st.sampled_from(["a/b", "a_b", "a.b", "a b", "x" * 130, "x" * 70, "x" * 64, f"a_b_{digest('a.b')}"]),
    max_size=12,
)
CHOSEN = st.dictionaries(st.sampled_from(["a/b", "a_b", "a.b", "x" * 70]), st.sampled_from(["a_b", "a.b", "s"]))


@given(METHODS, CHOSEN, st.randoms(use_true_random=False))
def test_names_are_valid_unique_and_equal_under_any_order(
    methods: list[str], chosen: dict[str, str], chance: random.Random
) -> None:
    both = names.assign_names(methods, chosen)
    assert set(both) == set(methods)
    for naming, rule in NAME_RULES.items():
        of_one = [pair[naming] for pair in both.values()]
        assert len(set(of_one)) == len(of_one)
        assert all(rule.accepts(name) for name in of_one)
    chance.shuffle(methods)
    assert names.assign_names(methods, chosen) == both


@given(METHODS, CHOSEN)
def test_no_text_names_two_tools_whichever_of_the_names_it_is(methods: list[str], chosen: dict[str, str]) -> None:
    owner: dict[str, str] = {}
    for method, pair in names.assign_names(methods, chosen).items():
        for name in pair.values():
            assert owner.setdefault(name, method) == method
