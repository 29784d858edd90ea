"""How long one check of a value of 1 MiB holds the event loop: ``python -m tests.hostile_values``.

Each value is what a schema makes slowest. Decided and explained, it may take 60 ms of processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from gateway import jsonrpc
from gateway.schema.validation import Validator, ValidatorCache

LIMIT: Final = 60.0
"""Milliseconds."""
_BYTES: Final = 1024**2
_REPEATS: Final = 5
_ARGUMENTS: Final = 50_000
"""Most objects and arrays of a caller's value, as in :data:`gateway.jsonrpc.MAX_CONTAINERS`."""
_PATH: Final = {"$ref": "#/properties/x"}

TOLD: Final = "the first fault is told"
UNTOLD: Final = "it is refused without a place"
REFUSED: Final = "it is too large to be checked"
LEFT_OUT: Final = "what takes long is left unchecked"
CHECKED: Final = "it is checked, and valid"


class Hostile(NamedTuple):
    """Hold a schema of a property ``x``, a value of it, and what comes of the check."""

    schema: dict[str, Any]
    value: Any
    verdict: str


def _items(item: Callable[[int], Any], containers: int = 1) -> list[Any]:
    """Return as many items as a caller can send in 1 MiB; ``containers`` is how many objects and arrays each is."""
    found: list[Any] = []
    size = 0
    for number in range(_ARGUMENTS // containers if containers else 2**30):
        size += len(jsonrpc.encode(item(number))) + 1
        if size > _BYTES - 4096:
            break
        found.append(item(number))
    return found


def _members(count: int = 80_000) -> dict[str, int]:
    return dict.fromkeys(("k" + name for name in _items("{:06}".format, 0)[:count]), 1)


def _nested(value: Any, beside: Iterable[int], levels: int = 55) -> Any:
    beside = list(beside)
    for _ in range(levels):
        value = [value, *beside]
    return value


_UNIQUE: Final = {"uniqueItems": True}
_DUPLICATES: Final = (0, 0)


def cases() -> dict[str, Hostile]:
    """Return the values by name. They take some seconds to make."""
    each: Callable[[dict[str, Any]], dict[str, Any]] = lambda schema: {"items": schema}  # noqa: E731, shorter
    objects, pair = _items(lambda n: {"a": n}), _items(lambda n: {"a": 1, "b": "x"})
    integers, halves = _items(lambda n: n, 0), _items(lambda n: n + 0.5, 0)
    ones, letters, short = _items(lambda _: 1, 0), _items(lambda _: "b", 0), range(15)
    fifteen = {
        "integers": _items(lambda n: [*short, 0], 1),
        "fractions": _items(lambda n: [*(j + 0.5 for j in short), 0.5][-15:], 1),
        "objects": _items(lambda n: [{"a": j % 14} for j in short], 16),
    }
    return {
        "unique objects": Hostile(_UNIQUE, [*objects, objects[0]], UNTOLD),
        "unique integers": Hostile(_UNIQUE, [*integers, 0], UNTOLD),
        "unique fractions": Hostile(_UNIQUE, [*halves, 0.5], LEFT_OUT),
        "unique tiny fractions": Hostile(_UNIQUE, [*_items(lambda n: n * 1e-299 + 1e-300, 0), *_DUPLICATES], LEFT_OUT),
        **{f"15 unique {what} each": Hostile(each(_UNIQUE), value, LEFT_OUT) for what, value in fifteen.items()},
        "unique at each level": Hostile(_UNIQUE | each(_PATH), _nested(integers, [*range(15), 0]), LEFT_OUT),
        "a fault in each object": Hostile(each({"additionalProperties": False}), objects, UNTOLD),
        "a fault in each member": Hostile({"additionalProperties": False}, _members(), UNTOLD),
        "a fault in each item": Hostile(each({"type": "string"}), integers, UNTOLD),
        "eight faults in each object": Hostile(each({"required": list("bcdefghi")}), objects, UNTOLD),
        "few faults": Hostile(each({"type": "string"}), integers[:20_000], TOLD),
        "too many items": Hostile({"maxItems": 1}, integers, UNTOLD),
        "too many members": Hostile({"maxProperties": 1}, _members(), UNTOLD),
        "names of members": Hostile({"propertyNames": {"maxLength": 3}}, _members(), UNTOLD),
        "patterns of names": Hostile({"patternProperties": {"^k": {"type": "string"}}}, _members(), LEFT_OUT),
        "few patterns of names": Hostile({"patternProperties": {"^k": {"type": "integer"}}}, _members(), CHECKED),
        "names of few members": Hostile({"propertyNames": {"maxLength": 3}}, _members(1_900), TOLD),
        "many required names": Hostile({"required": [f"z{n}" for n in range(5_000)]}, _members(1_900), TOLD),
        "a required name in each object": Hostile(each({"required": list("bcdefghi")}), [{}] * 1_900, TOLD),
        "an enum that each fault quotes": Hostile(each({"enum": [f"v{n}" for n in range(5_000)]}), ["b"] * 1_900, TOLD),
        "a constant that each fault quotes": Hostile(each({"const": "y" * 100_000}), ["b"] * 1_900, TOLD),
        "a deep value that each fault quotes": Hostile(
            {"maxItems": 0, "minItems": 10**6, "type": "integer"} | each(_PATH), _nested([1] * 1_900, []), TOLD
        ),
        "names that need others": Hostile(each({"dependentRequired": {"a": ["b"]}}), objects, UNTOLD),
        "names that need many others": Hostile(
            each({"dependentRequired": {f"d{n}": ["a"] for n in range(400)}}), objects, REFUSED
        ),
        "schemas of names": Hostile(each({"dependentSchemas": {"a": {"required": ["b"]}}}), objects, UNTOLD),
        "contains nothing": Hostile({"contains": {"required": ["b"]}}, objects, UNTOLD),
        "contains too few": Hostile({"contains": {"type": "integer"}, "minContains": 10**9}, integers, UNTOLD),
        "contains too many": Hostile({"contains": {"type": "integer"}, "maxContains": 1}, integers, UNTOLD),
        "unevaluated items": Hostile({"contains": {"type": "null"}, "unevaluatedItems": False}, integers, UNTOLD),
        "unevaluated members": Hostile({"unevaluatedProperties": False}, _members(), UNTOLD),
        "unevaluated members of alternatives": Hostile(
            {"anyOf": [{"properties": {name: True}} for name in "abc"], "unevaluatedProperties": False},
            _members(),
            UNTOLD,
        ),
        "three alternatives": Hostile(
            each({"oneOf": [{"type": t} for t in ("null", "string", "object")]}), ones, UNTOLD
        ),
        "a hundred alternatives": Hostile(each({"oneOf": [{"const": f"v{n}"} for n in range(100)]}), letters, REFUSED),
        "alternatives of objects": Hostile(each({"anyOf": [{"required": [n]} for n in "cdb"]}), pair, CHECKED),
        "an integer to equal": Hostile(each({"const": 1}), [*ones, 2], LEFT_OUT),
        "a fraction to equal": Hostile(each({"const": 1.5}), ones, LEFT_OUT),
        "an object to equal": Hostile(each({"const": {"a": 1}}), objects, UNTOLD),
        "objects to equal": Hostile(each({"enum": [{"a": n} for n in range(30)]}), objects, REFUSED),
        "integers to equal": Hostile(each({"enum": list(range(1000))}), [*ones[:400000], -1], UNTOLD),
        "several types to equal": Hostile(each({"enum": ["a", "b", 2, 1, None]}), [*ones, 5], LEFT_OUT),
        "not an object": Hostile(each({"not": {"type": "object"}}), [*integers, {}], UNTOLD),
        "not equal at each level": Hostile({"not": {"const": [1, 0]}} | each(_PATH), _nested(integers, [1]), CHECKED),
        "bounds of fractions": Hostile(each({"minimum": 0.25}), [0.1, *halves], LEFT_OUT),
        "bounds of integers": Hostile(each({"minimum": 0, "maximum": 5}), [9] * 520_000, LEFT_OUT),
        "a deep reference": Hostile({"type": ["array", "integer"]} | each(_PATH), _nested(integers, [1]), CHECKED),
        "a long text": Hostile({"pattern": "^[a-z]*$", "maxLength": 9}, "a" * (_BYTES - 4096), TOLD),
        "many short texts": Hostile(each({"pattern": "^[a-z]*$"}), letters, CHECKED),
        "objects of the usual form": Hostile(
            each({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "additionalProperties": False}),
            pair,
            CHECKED,
        ),
    }


def validator_of(hostile: Hostile) -> Validator:
    return ValidatorCache().compile({"type": "object", "properties": {"x": hostile.schema}})


def _milliseconds(hostile: Hostile) -> float:
    """Return the least of some checks, since what the machine does besides only ever adds."""
    validator, value = validator_of(hostile), {"x": hostile.value}
    least = float("inf")
    for _ in range(_REPEATS):
        started = time.process_time()
        if not validator.is_valid(value):
            validator.faults(value)
        least = min(least, time.process_time() - started)
    return least * 1000


def slowest_checks() -> list[float]:
    """Return the milliseconds of the slowest value."""
    return [max(map(_milliseconds, cases().values()))]


def main() -> int:
    figures = {name: _milliseconds(hostile) for name, hostile in cases().items()}
    for name, figure in sorted(figures.items(), key=lambda item: -item[1]):
        print(f"{name:36}{figure:8.1f} ms{'' if figure <= LIMIT else '  MISSED'}")
    return int(max(figures.values()) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
