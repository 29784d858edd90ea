"""A table of cases reports each row that fails, and hides none."""

from __future__ import annotations

import pytest

from tests.each import each


@each("value", [1, 2, 3])
def odd(value: int) -> None:
    assert value % 2 == 1, f"{value} is even"


@each("value", [0, 1, 2])
async def at_least_two(value: int) -> None:
    assert value >= 2, f"{value} is too small"


def test_a_row_that_fails_is_named_and_the_rows_after_it_run() -> None:
    with pytest.raises(BaseExceptionGroup, match="1 of 3 rows fail: 1 2") as raised:
        odd()
    (failure,) = raised.value.exceptions
    assert "2 is even" in str(failure)


async def test_every_failing_row_of_a_coroutine_is_named() -> None:
    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows fail: 0 0; 1 1"):
        await at_least_two()


def test_a_row_that_skips_hides_no_failure_before_it() -> None:
    @each("value", [1, 2])
    def fails_then_skips(value: int) -> None:
        assert value == 2
        pytest.skip("this row")

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows fail"):
        fails_then_skips()


def test_a_row_of_a_mapping_has_its_own_name() -> None:
    @each(("value", "most"), {"small": (1, 2), "large": (3, 2)})
    def is_at_most(value: int, most: int) -> None:
        assert value <= most

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows fail: 1 large"):
        is_at_most()


def test_a_table_within_a_table_ends_no_other_row() -> None:
    @each("outer", [1, 2])
    @each("inner", [1, 2])
    def raises_unless_both_are_two(outer: int, inner: int) -> None:
        if outer != 2 or inner != 2:
            pytest.fail("one of them is not")

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows fail: 0 1; 1 2") as raised:
        raises_unless_both_are_two()
    assert [str(group).split(" (")[0] for group in raised.value.exceptions] == [
        "2 of 2 rows fail: 0 1; 1 2",
        "1 of 2 rows fail: 0 1",
    ]


def test_a_fixture_forgets_at_the_end_of_a_row_what_it_counted() -> None:
    class Counting:
        def __init__(self) -> None:
            self.seen = list[int]()

        def end_row(self) -> None:
            self.seen.clear()

    @each("value", [1, 2])
    def sees_one(counting: Counting, value: int) -> None:
        counting.seen.append(value)
        assert counting.seen == [value]

    sees_one(counting=Counting())


def test_a_table_without_rows_and_a_row_with_marks_are_refused() -> None:
    with pytest.raises(ValueError, match="without rows tests nothing"):
        each("value", [])
    with pytest.raises(ValueError, match="has marks, which count for a whole test only"):
        each("value", [1, pytest.param(2, marks=pytest.mark.xfail)])
