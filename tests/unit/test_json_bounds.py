"""What is told of JSON by its bytes alone is certain where it clears them, and clears what is usual."""

from __future__ import annotations

import json
import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway import jsonrpc
from gateway.jsonrpc.bounds import SMALL, is_deeper_than, may_have_huge_numbers, may_nest_deeper
from tests.each import each
from tests.pace import quickly

PAD = " " * SMALL
TEXTS = st.text('[]{}"\\:,a', max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)
DIGITS = st.text("0123456789", min_size=1, max_size=6)
NUMBERS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.sampled_from(["0", "1", "12", "9" * 199, "9" * 200, "9" * 308, "9" * 310, "9" * 4301]),
    st.just("") | DIGITS.map(".{}".format),
    st.sampled_from(["", "e", "E", "e+", "e-", "E+"]),
    DIGITS,
)


def nested(value: Any, levels: int, texts: list[str]) -> Any:
    """A value within so many levels, objects and arrays by turns, with texts beside it."""
    for level in range(levels):
        value = (
            [*texts, value]
            if level % 2
            else {**{f"{number}{text}": text for number, text in enumerate(texts)}, "": value}
        )
    return value


def fault_of(raw: bytes) -> str:
    try:
        jsonrpc.decode(raw)
    except ValueError as error:
        return str(error)
    return ""


@given(VALUES, st.integers(0, 40), st.lists(TEXTS, max_size=2), st.integers(1, 45), st.booleans(), st.booleans())
def test_no_deep_value_is_taken_for_a_shallow_one(
    value: Any, levels: int, texts: list[str], limit: int, padded: bool, escaped: bool
) -> None:
    value = nested(value, levels, texts)
    raw = json.dumps(value).encode()
    if escaped:
        raw = raw.replace(b"\\\\", b"\\u005c").replace(b"[", b"[ ")
    assert may_nest_deeper(raw + PAD.encode() * padded, limit) or not is_deeper_than(value, limit)


@each(
    "value",
    [
        [{"a": [1, {"b": []}]}] * 3000,
        [{"text": 'a [link], {braces} and "quotes" \\'}] * 1000,
        {"brackets": "[{" * 9000, "more": [[]] * 300},
        nested(1, 200, ["]", "["]),
    ],
)
def test_usual_values_are_known_to_be_shallow_by_their_text(value: Any) -> None:
    assert not may_nest_deeper(json.dumps(value).encode() + PAD.encode(), 256)


@each("text", ['"[",', '"]",', "[],", '"\\"[",', '"\\\\","[",'])
def test_hostile_texts_are_looked_through_in_time(text: str) -> None:
    raw = f"[{text * (1024**2 // len(text))}1]".encode()
    with quickly(0.1):
        may_nest_deeper(raw, 256)


@given(NUMBERS)
def test_no_number_that_cannot_be_read_is_cleared(number: str) -> None:
    for text in (number, f"[{number}]", f'{{"a":{number}}}', f"[1,{number},2]", f"[1, {number}\n]"):
        raw = text.encode()
        assert may_have_huge_numbers(raw) or "out of range" not in fault_of(raw)


@each(
    "usual",
    [
        [1e99, -2.5e-12, 10**198, 0.1], ["1e400", "page 1", "e400", "a1e400"], [1234.5] * 5000,
        [str(uuid.UUID(int=number * 2**70 + 0x3E450 * 2**40)) for number in range(3000)],
    ],
)  # fmt: skip
def test_usual_numbers_and_texts_are_cleared(usual: Any) -> None:
    for style in ({}, {"separators": (",", ":")}, {"indent": 1}):
        assert not may_have_huge_numbers(json.dumps(usual, **style).encode())
