"""What of a schema our own validator leaves out, so that its regular expressions and numbers cost a bounded time.

The engine is linear in the text, but the factor is the size of the compiled expression: it steps through up to all of
its states for each character. So expressions are weighed by compiled size, and a schema gets a budget for all of them
together. One that is over it, or that a linear engine cannot hold (look-around, back-references), leaves *our*
validator and stays in what is published; the backend checks it anyway.

What is left out may only ever make us accept more. So it takes with it what would turn acceptance into refusal: a
``not`` or ``if`` over it, the "exactly one" of ``oneOf``, ``maxContains``, what is closed to "other" properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.json_schema import LITERAL, MAPS
from gateway.schema.numbers import compares_numbers

MAX_WEIGHT: Final = 256 * 1024
"""Bytes that all compiled expressions of one schema may come to; about 80 of them are a state."""
SIZES: Final = (1024, 4 * 1024, 16 * 1024, 64 * 1024)
"""Classes of compiled size. An expression beyond the last is left out."""

_BEYOND_LINEAR: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
_MAX_PATTERN: Final = 4096
_READING: Final = 16
"""Bytes that a character is charged for being read, however little comes of it."""


def is_beyond_linear(pattern: str) -> bool:
    """Tell whether an expression cannot be held for sure, which is told without compiling it. Others may turn out
    so."""
    return len(pattern) > _MAX_PATTERN or _BEYOND_LINEAR.search(pattern) is not None


def patterns_of(schema: Any, within_map: bool = False) -> Iterator[str]:
    """All regular expressions of a schema, in its order."""
    if isinstance(schema, list):
        for item in schema:
            yield from patterns_of(item)
    elif isinstance(schema, Mapping):
        for key, child in schema.items():
            if within_map:
                yield from patterns_of(child)
            elif key == "pattern" and isinstance(child, str):
                yield child
            elif key == "patternProperties" and isinstance(child, Mapping):
                yield from child
                yield from patterns_of(child, within_map=True)
            elif key not in LITERAL:
                yield from patterns_of(child, within_map=key in MAPS)


def admit_patterns(schema: Mapping[str, Any], weigh: Callable[[str], int | None]) -> tuple[frozenset[str], int]:
    """The expressions that our validator holds, and their weight together.

    ``weigh`` gives an expression's class of compiled size, None where the engine refuses it. A refusal is charged like
    the largest class: most of its cost is spent before it is clear.
    """
    admitted_patterns: set[str] = set()
    weight = spent = 0
    for pattern in dict.fromkeys(patterns_of(schema)):
        if is_beyond_linear(pattern) or spent >= MAX_WEIGHT:
            continue
        size = weigh(pattern)
        spent += max(SIZES[-1] if size is None else size, _READING * len(pattern))
        if size is not None and spent <= MAX_WEIGHT:
            admitted_patterns.add(pattern)
            weight += size
    return frozenset(admitted_patterns), weight


def remove_patterns(schema: Mapping[str, Any], refused: Callable[[str], bool]) -> dict[str, Any]:
    """A schema that holds no refused expression and accepts at least what ``schema`` accepts."""
    if not any(map(refused, patterns_of(schema))):
        return dict(schema)
    return relax_schema(schema, refused, lambda _, __: False)


def remove_patterns_and_numbers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same without any expression, and without any number to compare with."""
    return relax_schema(schema, lambda _: True, compares_numbers)


def relax_schema(
    schema: Mapping[str, Any], refused: Callable[[str], bool], dropped: Callable[[str, Any], bool]
) -> dict[str, Any]:
    """A schema without refused expressions and dropped keywords, which accepts at least what ``schema`` accepts."""
    kept = _Relaxer(refused, dropped).schema(schema)[0]
    return kept if isinstance(kept, dict) else {}


class _Relaxer:
    """``schema`` returns a subschema with whether it still says exactly the same."""

    def __init__(self, refused: Callable[[str], bool], dropped: Callable[[str, Any], bool]) -> None:
        self._refused = refused
        self._dropped = dropped

    def schema(self, value: Any) -> tuple[Any, bool]:
        if not isinstance(value, Mapping):
            return value, True
        kept: dict[str, Any] = {}
        inexact: set[str] = set()
        for keyword, content in value.items():
            is_refused = keyword == "pattern" and isinstance(content, str) and self._refused(content)
            if is_refused or self._dropped(keyword, content):
                inexact.add(keyword)
                continue
            if keyword == "patternProperties" and isinstance(content, Mapping):
                held = {pattern: child for pattern, child in content.items() if not self._refused(pattern)}
                if len(held) < len(content):
                    inexact.add(keyword)
                content = held
            kept[keyword], exact = self._keyword(keyword, content)
            if not exact:
                inexact.add(keyword)
        return self._without_reversals(kept, inexact), not inexact

    def _keyword(self, keyword: str, content: Any) -> tuple[Any, bool]:
        if keyword in ("$ref", "unevaluatedProperties", "unevaluatedItems"):
            return self.schema(content)[0], False  # what they depend on may be far away
        if keyword in LITERAL:
            return content, True
        if isinstance(content, list):
            children = [self.schema(child) for child in content]
            return [child for child, _ in children], all(exact for _, exact in children)
        if keyword in MAPS and isinstance(content, Mapping):
            named = {name: self.schema(child) for name, child in content.items()}
            return {name: child for name, (child, _) in named.items()}, all(exact for _, exact in named.values())
        return self.schema(content)

    @staticmethod
    def _without_reversals(kept: dict[str, Any], inexact: set[str]) -> dict[str, Any]:
        for keyword in inexact & {"not", "unevaluatedProperties", "unevaluatedItems"}:
            del kept[keyword]
        if "if" in inexact:
            for keyword in ("if", "then", "else"):
                kept.pop(keyword, None)
        if "contains" in inexact:
            kept.pop("maxContains", None)
        if "patternProperties" in inexact:
            kept.pop("additionalProperties", None)
        if "oneOf" in inexact:
            alternatives = {"anyOf": kept.pop("oneOf")}
            kept["allOf"] = [*kept.get("allOf", ()), alternatives]
        return kept
