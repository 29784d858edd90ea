"""Durations, sizes and rates read as people write them, and are written so that they read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.units import format_duration, format_size, parse_duration, parse_rate, parse_size
from tests.each import each


@each(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("5m", 300),
        ("1h", 3600),
        ("1d", 86400),
        (15, 15),
        (0.5, 0.5),
        ("2", 2),
        (" 1.5 m ", 90),
        ("0", 0),
    ],
)
def test_a_duration_is_a_number_and_a_unit_and_seconds_without_one(text: Any, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@each("text", ["", "s", "-5s", "5 min", "1h30m", "5S", "1,5s", "1e3", True, None, [], {}, "∞", ".5s"])
def test_what_is_no_duration_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(ValueError, match="a duration such as 500ms"):
        parse_duration(text)


@each(("text", "size"), [("1MiB", 2**20), ("512KiB", 2**19), ("1GiB", 2**30), (7, 7), ("7B", 7)])
def test_a_size_is_a_number_and_a_binary_unit_and_bytes_without_one(text: Any, size: int) -> None:
    assert parse_size(text) == size


@each("text", ["1MB", "1mib", "-1", "lots", False, None, "1 MiB B"])
def test_what_is_no_size_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(ValueError, match="a size such as 512KiB"):
        parse_size(text)


@each(("text", "rate"), [("60/minute", "60/minute"), (" 1 / second ", "1/second"), ("9/day", "9/day")])
def test_a_rate_is_a_count_per_period(text: str, rate: str) -> None:
    assert parse_rate(text) == rate


@each("text", ["60", "0/minute", "-1/hour", "60/min", "1.5/second", "60/minutes", None, 60, "/hour"])
def test_what_is_no_rate_is_refused_with_the_periods(text: Any) -> None:
    with pytest.raises(ValueError, match="second, minute, hour, day"):
        parse_rate(text)


@each(("seconds", "text"), [(0.5, "500ms"), (30.0, "30s"), (300.0, "5m"), (86400.0, "1d"), (90.0, "90s")])
def test_a_duration_is_written_in_its_largest_whole_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@each(("size", "text"), [(1024**2, "1MiB"), (1536, "1536B"), (2**30, "1GiB")])
def test_a_size_is_written_in_its_largest_whole_unit(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(0, 10**8))
def test_what_is_written_reads_back(amount: int) -> None:
    assert parse_duration(format_duration(float(amount))) == pytest.approx(amount)
    assert parse_size(format_size(amount)) == amount
