"""Measure what JSON can cost its reader: its numbers before it is decoded, its depth and members after that.

The JSON engine is in :mod:`gateway.jsonrpc`. Nothing here depends on it, except the numbers that it is slow at.
"""

from __future__ import annotations

import re
from math import isinf
from typing import Any, Final

SMALL: Final = 16 * 1024
"""Bytes of JSON up to which the content matters little: slow numbers cost some 20 ms at most."""
_KEPT: Final = b'"eE+-0123456789'
_DROPPED: Final = bytes(set(range(256)) - set(_KEPT))
_CONTAINERS: Final = (dict, list)
_LONG_EXPONENT: Final = re.compile(rb"[eE][+-]?[0-9]{3}")
_SLOW: Final = re.compile(rb"[0-9.][eE][+-]?[0-9]{3}")


def has_slow_numbers(raw: bytes | memoryview) -> bool:
    """Tell whether a JSON text has numbers with an exponent of three digits.

    The engine takes 8 µs for ``1e300``, twenty times what Python takes: a mebibyte of them would hold the loop for more
    than a second. The first search clears most texts, and is ten times as fast as the second.
    """
    text = bytes(raw)
    return _LONG_EXPONENT.search(text.translate(None, _DROPPED)) is not None and _SLOW.search(text) is not None


def read_float(text: str) -> float:
    """Read a number with a fraction or an exponent. Raises :class:`ValueError` for one that no float can hold."""
    value = float(text)
    if isinf(value):
        raise ValueError("Number out of range")
    return value


def is_deeper_than(value: Any, limit: int) -> bool:
    """Tell whether a decoded value nests deeper than ``limit`` levels."""
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
