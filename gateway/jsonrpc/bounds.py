"""Measure what JSON can cost its reader: its numbers before it is decoded, its depth and members before or after."""

import re
from itertools import accumulate
from math import isinf
from typing import Any, Final

SMALL: Final = 16 * 1024
"""Bytes of JSON up to which the content matters little: slow numbers cost some 20 ms at most."""
UNSCANNED: Final = 2048
"""Bytes of JSON that are not searched for what they cost. Most take less than :data:`UNSCANNED_COST` for each."""
UNSCANNED_COST: Final = 16
_TEXT_COST, _WIDER_COST = 4, 3
"""Bytes for each byte of text: as it came or serialized again, decoded, in a message, and joined with a head. One
character beyond Latin-1 makes Python keep up to four bytes for each character of a text, which are three more."""
_OBJECT_COST, _ARRAY_COST, _PART_COST = 144, 96, 64
"""Bytes for each object, each array, and each member's name and value. CPython 3.11 takes 184 for an object with its
first member and 64 for one without, 88 for a short array, 50 to 60 for a number, a name or a short text and its place
(decision 30)."""
_CONTAINERS: Final = (dict, list)
_SHAPES: Final = {
    **dict.fromkeys(b"0123456789.", b"0"),
    **dict.fromkeys(b"eE", b"e"),
    **dict.fromkeys(b"[,: \t\r\n", b" "),
}
_SHAPE: Final = b"".join(_SHAPES.get(byte, b"x") for byte in range(256))
_SIGNS: Final = b"+-"
_LONG_EXPONENT: Final = b"0e000"
_LONG_NUMBER: Final = re.compile(b" 0++e000")
_MANY_DIGITS: Final = b"0" * 200
"""Fewer, with an exponent of two digits, are no infinity; far fewer than the engine reads in an integer."""
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_LEVELS))
_NO_MARKS: Final = bytes(set(_NO_BRACKETS) - set(b'"'))
_TEXT: Final = re.compile(rb'"[^"]*+"')
_MANY_TEXTS: Final = 4000
_ROUNDS: Final = 8


def memory_cost(raw: bytes) -> int:
    """Return about how many bytes a JSON text takes at most until its exchange ends, judged by its shape."""
    return _TEXT_COST * len(raw) + value_cost(raw)


def value_cost(raw: bytes) -> int:
    """Return how many of these bytes its value takes, and more than its text."""
    count = raw.count
    wider = 0 if raw.isascii() and b"\\u" not in raw else _WIDER_COST * len(raw)
    parts = count(b",") + count(b":")
    return wider + _OBJECT_COST * count(b"{") + _ARRAY_COST * count(b"[") + _PART_COST * parts


def has_slow_numbers(raw: bytes | memoryview) -> bool:
    """Return whether a JSON text may have numbers with an exponent of three digits. False is certain. The engine takes
    8 µs for ``1e300``, twenty times what Python takes: a mebibyte of them would hold the loop for over a second."""
    return _has_long_exponents(bytes(raw).translate(_SHAPE, _SIGNS))


def may_have_huge_numbers(raw: bytes) -> bool:
    """Return whether a JSON text may have numbers that are too large to be read. False is certain."""
    shape = raw.translate(_SHAPE, _SIGNS)
    return _MANY_DIGITS in shape or _has_long_exponents(shape)


def _has_long_exponents(shape: bytes) -> bool:
    """Search a text in which all digits are alike, and all that stands before a number. The first search takes 0.5 ms
    for a mebibyte and clears most texts, but not identifiers of hexadecimal digits. The second one does."""
    return _LONG_EXPONENT in shape and _LONG_NUMBER.search(b" " + shape) is not None


def read_float(text: str) -> float:
    """Read a number with a fraction or an exponent. Raises :class:`ValueError` for one that no float can hold."""
    value = float(text)
    if isinf(value):
        raise ValueError("Number out of range")
    return value


def nesting_fault(skeleton: bytes, most_levels: int, most_containers: int) -> str:
    """Return what is wrong with the nesting of JSON without its strings, "" if nothing is."""
    brackets = skeleton.translate(None, _NO_BRACKETS)
    if brackets.count(b"{") + brackets.count(b"[") > most_containers:
        return f"More than {most_containers} objects and arrays"
    too_deep = max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > most_levels
    return f"Nested deeper than {most_levels} levels" if too_deep else ""


def nests_deeper(raw: bytes, value: Any, limit: int) -> bool:
    """Return whether a decoded value nests deeper than ``limit`` levels; ``raw`` is its text."""
    return may_nest_deeper(raw, limit) and is_deeper_than(value, limit)


def may_nest_deeper(raw: bytes, limit: int) -> bool:
    """Return whether the value of valid JSON may nest deeper than ``limit`` levels. False is certain. It takes 1 ms
    for a mebibyte, half of what :func:`is_deeper_than` takes."""
    if b"\\" in raw:  # an escaped quote is no end of a string
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = raw.translate(None, _NO_MARKS)
    # Two quotes side by side are a string without brackets, or lie between two strings with some, which become one.
    # Sixteen are as good as two, and eight times as fast.
    marks = marks.replace(b'"' * 16, b"").replace(b'""', b"")
    if len(marks) < 2 * limit:
        return False
    if b'"' in marks:
        if marks.count(b'"') > _MANY_TEXTS:
            return True  # to look at the value costs no more
        marks = _TEXT.sub(b"", marks)
    for _ in range(_ROUNDS):  # each takes away one level at least, from within, and two at most
        marks = marks.replace(b"[]", b"").replace(b"{}", b"")
    return 2 * _ROUNDS + len(marks) // 2 >= limit


def is_deeper_than(value: Any, limit: int) -> bool:
    """Return whether a decoded value nests deeper than ``limit`` levels."""
    level = [value] if type(value) in _CONTAINERS and value else []
    for _ in range(limit - 1):
        # Only containers with members go to the next level: a large result has millions of other values.
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) in _CONTAINERS and child
        ]
        if not level:
            break
    return bool(level)


def count_members(value: Any) -> int:
    """Return how many members the objects of a decoded value have, at all levels."""
    count = 0
    pending = [value] if type(value) in _CONTAINERS else []
    while pending:
        top = pending.pop()
        if type(top) is dict:
            count += len(top)
            top = top.values()
        pending += [child for child in top if type(child) in _CONTAINERS]
    return count


def echoes_unquoted(raw: bytes, id: str | int | None) -> bool:
    """Return whether a response has the text ``id`` without quotes, as services write it that take integers alone."""
    return type(id) is str and re.search(rb'"id"\s*:\s*%b\b' % str(id).encode(), raw) is not None
