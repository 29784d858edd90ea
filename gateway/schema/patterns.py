"""Choose the regular expressions that our own validator checks, so that they cost a bounded time.

The engine is linear in the text and in the size of the compiled expression, so each schema has a budget for all its
expressions. *Our* validator ignores one over the budget, and one that a linear engine cannot compile (look-around,
back-references). It stays in the published schema, and the backend checks it anyway. What is removed may only make us
accept more, so each keyword goes too that would turn acceptance into refusal.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.model.schema_keywords import LITERAL, MAPS, all_schemas

# The engine compares integers of a signed word (64 bits) as the processor does. It converts all others to exact
# fractions: 1 µs each, 15 µs for ``1e-300``, 500 µs for an integer of 4,000 digits. So each number has a weight, in
# units of one subschema that is applied, about 30 ns. Equality takes 150 ns (``const``, and an ``enum`` unless it has
# integers alone). For ``uniqueItems`` the engine compares up to 15 items in pairs, at each level that has arrays; of
# more items, it compares only each integer beyond a signed word with all others.
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
    With ``pairs`` an array has so few items that each is compared with all others."""
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
    """Return whether a keyword makes the engine compare numbers."""
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


MAX_WEIGHT: Final = 256 * 1024
"""Maximum bytes of all compiled expressions of one schema. A state takes about 80."""
SIZES: Final = (1024, 4 * 1024, 16 * 1024, 64 * 1024)
"""Classes of compiled size, in bytes. An expression beyond the last is not checked."""

_BEYOND_LINEAR: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
_MAX_PATTERN: Final = 4096
_READING: Final = 16
"""Bytes charged for each character of an expression, since parsing costs time however small the result is."""


def patterns_of(schema: Any) -> Iterator[str]:
    """Yield all regular expressions of a schema."""
    for part in all_schemas(schema):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        if isinstance(part.get("patternProperties"), Mapping):
            yield from part["patternProperties"]


def admit_patterns(schema: Mapping[str, Any], weigh: Callable[[str], int | None]) -> tuple[frozenset[str], int]:
    """Return the expressions that our validator checks, and their weight together. ``weigh`` returns an expression's
    class of compiled size, None where the engine refuses it, which is charged as the largest: most of the work is done
    before."""
    admitted_patterns: set[str] = set()
    weight = spent = 0
    for pattern in dict.fromkeys(patterns_of(schema)):
        # These are refused before they are compiled. The engine may refuse others.
        if len(pattern) > _MAX_PATTERN or _BEYOND_LINEAR.search(pattern) or spent >= MAX_WEIGHT:
            continue
        size = weigh(pattern)
        spent += max(SIZES[-1] if size is None else size, _READING * len(pattern))
        if size is not None and spent <= MAX_WEIGHT:
            admitted_patterns.add(pattern)
            weight += size
    return frozenset(admitted_patterns), weight


def remove_patterns(schema: Mapping[str, Any], refused: Callable[[str], bool]) -> dict[str, Any]:
    """Return a schema without refused expressions, which accepts no less than ``schema``."""
    if not any(map(refused, patterns_of(schema))):
        return dict(schema)
    return relax_schema(schema, refused, lambda _, __: False)


def remove_patterns_and_numbers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return such a schema without any expression, and without any number to compare with."""
    return relax_schema(schema, lambda _: True, compares_numbers)


def relax_schema(
    schema: Mapping[str, Any], refused: Callable[[str], bool], dropped: Callable[[str, Any], bool]
) -> dict[str, Any]:
    """Return a schema without refused expressions and dropped keywords, which accepts no less than ``schema``."""
    kept = _Relaxer(refused, dropped).relax(schema)[0]
    return kept if isinstance(kept, dict) else {}


@dataclass(frozen=True)
class _Relaxer:
    """Relax subschemas; :meth:`relax` returns each one with whether it still accepts exactly the same values."""

    _refused: Callable[[str], bool]
    _dropped: Callable[[str, Any], bool]

    def relax(self, value: Any) -> tuple[Any, bool]:
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
        return self._remove_reversals(kept, inexact), not inexact

    def _keyword(self, keyword: str, content: Any) -> tuple[Any, bool]:
        if keyword in ("$ref", "unevaluatedProperties", "unevaluatedItems"):
            return self.relax(content)[0], False  # they depend on subschemas elsewhere, which may be inexact
        if keyword in LITERAL:
            return content, True
        if isinstance(content, list):
            children = [self.relax(child) for child in content]
            return [child for child, _ in children], all(exact for _, exact in children)
        if keyword in MAPS and isinstance(content, Mapping):
            named = {name: self.relax(child) for name, child in content.items()}
            return {name: child for name, (child, _) in named.items()}, all(exact for _, exact in named.values())
        return self.relax(content)

    @staticmethod
    def _remove_reversals(kept: dict[str, Any], inexact: set[str]) -> dict[str, Any]:
        """Remove keywords beside which a subschema that accepts more makes the schema accept less."""
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
