"""Weigh what it costs to compare the numbers of a value with those of a schema.

The engine compares integers of a signed word (64 bits) as the processor does. It converts all others to exact
fractions: 1 µs each, 15 µs for ``1e-300``, 500 µs for an integer of 4,000 digits. So each number has a weight, in units
of one subschema that is applied (:mod:`gateway.schema.validation`), about 30 ns.

To compare any number for equality takes 150 ns (``const``, and an ``enum`` unless it has integers alone, which are
looked up). For ``uniqueItems`` the engine compares up to 15 items in pairs, at each level that has arrays. It looks
more items up, but compares each integer beyond a signed word with all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_FLOAT: Final = 80
_EXTREME_FLOAT: Final = 500
_ORDINARY: Final = (1e-15, 1e50)
WORD: Final = 2**63
MAX_PAIRED: Final = 15
EQUALITY: Final = 5
_LOOK_UP: Final = 5
_IN_PAIRS: Final = 14
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_TIMES: Final[Mapping[str, int]] = {"multipleOf": 2} | dict.fromkeys((*_BOUNDS, "enum", "const"), 1)


def weight_of(number: float) -> int:
    """Return what a comparison with a number costs; 0 for an integer of a signed word (64 bits)."""
    if type(number) is float:
        size = abs(number)
        return _FLOAT if _ORDINARY[0] <= size <= _ORDINARY[1] or not size else _EXTREME_FLOAT
    return 0 if -WORD <= number < WORD else 15 + (int(number).bit_length() // 100) ** 2


def weight_of_floats(found: list[float]) -> int:
    """Return what comparisons with all of these fractions cost, in a fifth of the time that it takes one by one."""
    sizes = list(filter(None, map(abs, found)))
    if not sizes or _ORDINARY[0] <= min(sizes) <= max(sizes) <= _ORDINARY[1]:
        return _FLOAT * len(found)
    return sum(map(weight_of, found))


def weigh_uniqueness(values: int, weight: int, *, pairs: bool) -> int:
    """Return what ``uniqueItems`` costs at one level that has arrays, for values whose numbers have this ``weight``.
    ``pairs`` tells whether an array has so few items that each is compared with all others."""
    return _IN_PAIRS * values + 7 * weight // 3 if pairs else _LOOK_UP * values + weight // 8


def weigh_literals(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many numbers one schema object compares values with, and their weight together."""
    count = weight = 0
    for keyword, times in _TIMES.items():
        if keyword in schema:
            content = schema[keyword]
            is_looked_up = keyword == "enum" and isinstance(content, list) and set(map(type, content)) == {int}
            least = EQUALITY if keyword in ("enum", "const") and not is_looked_up else 0
            for number in _numbers(content):
                count += times
                weight += max(least, times * weight_of(number))
    return count, weight


def compares_numbers(keyword: str, content: Any) -> bool:
    """Tell whether a keyword makes the engine compare numbers."""
    if keyword == "uniqueItems":
        return content is True
    return keyword in _TIMES and next(_numbers(content), None) is not None


def _numbers(content: Any) -> Iterator[float]:
    """Yield all numbers in a keyword's content, at all levels."""
    pending = [content]
    while pending:
        top = pending.pop()
        if type(top) is int or type(top) is float:
            yield top
        elif isinstance(top, Mapping):
            pending += top.values()
        elif isinstance(top, list):
            pending += top
