"""Small values are not weighed before they are checked; that none of them would weigh too much is tested here."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.schema.cost import LARGEST_SMALL, is_small, size_of
from gateway.schema.patterns import WORD
from tests.each import each

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-WORD, WORD), st.text(max_size=300), st.floats())
VALUES = st.dictionaries(st.text(max_size=300), st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=20)


@given(VALUES)
def test_no_small_value_weighs_more_than_the_largest_one(value: dict[str, Any]) -> None:
    if is_small(value):
        assert all(weight <= most for weight, most in zip(size_of(value), LARGEST_SMALL, strict=True))


@each("value", [{}, {"a": 1, "b": "x", "c": None, "d": True}, {"n" * 256: "x" * 256}, {"n": -WORD}])
def test_few_short_members_are_small(value: dict[str, Any]) -> None:
    assert is_small(value)


@each(
    "value",
    [
        {str(n): n for n in range(17)}, {"a": "x" * 257}, {"n" * 257: 1}, {"a": 1.0}, {"a": WORD}, {"a": [1]},
        {"a": {}}, [], "x", 1, None,
    ],
)  # fmt: skip
def test_all_others_are_weighed(value: Any) -> None:
    assert not is_small(value)
