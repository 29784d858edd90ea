"""Make wrong calls of right ones, in the seven ways in which models usually get a call wrong.

A mistake that a tool cannot have falls out: nothing required cannot be missing, and where the published schema accepts
the call (it takes any type there), the client was told no better. The schema is asked through ``jsonschema``, which the
gateway does not use for calls.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jsonschema

Place: TypeAlias = tuple[str | int, ...]
Arguments: TypeAlias = Mapping[str, Any]
EXTRA: Final = "verbose"
"""An argument that none of the tools has."""


@dataclass(frozen=True)
class Try:
    """Hold a wrong call. ``place`` is where its arguments are wrong, empty where the name of the tool is."""

    mistake: str
    tool: str
    arguments: Arguments
    place: Place = ()


def wrong_tries(name: str, schema: Mapping[str, Any], right: Arguments, server: str, number: int) -> Iterator[Try]:
    """Yield the wrong calls of a tool: each mistake at most once. ``name`` and ``schema`` are the published ones,
    ``right`` are the arguments of a right call, and ``number`` chooses among the ways to get a name wrong."""
    yield Try("wrong name", _wrong_name(name, server, number), right)
    validator = jsonschema.Draft202012Validator(schema)
    for mistake, candidates in _MISTAKES.items():
        for place, arguments in candidates(schema, right):
            if mistake == "extra argument" or _is_refused(validator, arguments, place, mistake):
                yield Try(mistake, name, arguments, place)
                break


def _wrong_name(name: str, server: str, number: int) -> str:
    """Return the name in another style, in another number, or with the server's name in front, as many clients show it
    to their model."""
    ways = (_restyled(name), name.removesuffix("s") if name.endswith("s") else f"{name}s", f"{server}__{name}")
    wrong = ways[number % 3]
    return wrong if wrong != name else ways[1]


def _restyled(name: str) -> str:
    if re.search(r"[A-Z]", name):
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def _without_required(schema: Mapping[str, Any], right: Arguments) -> Iterator[tuple[Place, Arguments]]:
    for name in schema.get("required", ()):
        yield (name,), {key: value for key, value in right.items() if key != name}


def _texts_for_numbers(_: Mapping[str, Any], right: Arguments) -> Iterator[tuple[Place, Arguments]]:
    for place, value in _leaves(right):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield place, with_value(right, place, str(value))


def _with_extra(_: Mapping[str, Any], right: Arguments) -> Iterator[tuple[Place, Arguments]]:
    yield (EXTRA,), {**right, EXTRA: True}


def _nulls(schema: Mapping[str, Any], right: Arguments) -> Iterator[tuple[Place, Arguments]]:
    """Yield null for what the call leaves out, and then for what it needs."""
    for name in schema.get("properties", {}):
        if name not in right:
            yield (name,), {**right, name: None}
    for name in right:
        yield (name,), {**right, name: None}


def _wrong_labels(_: Mapping[str, Any], right: Arguments) -> Iterator[tuple[Place, Arguments]]:
    for place, value in _leaves(right):
        if isinstance(value, str):
            yield place, with_value(right, place, value.capitalize())
            yield place, with_value(right, place, value + "s")


def _json_texts(_: Mapping[str, Any], right: Arguments) -> Iterator[tuple[Place, Arguments]]:
    for name, value in right.items():
        if isinstance(value, dict | list):
            yield (name,), {**right, name: json.dumps(value)}


_MISTAKES: Final[Mapping[str, Callable[[Mapping[str, Any], Arguments], Iterator[tuple[Place, Arguments]]]]] = {
    "missing argument": _without_required,
    "string for number": _texts_for_numbers,
    "extra argument": _with_extra,
    "null": _nulls,
    "wrong enum": _wrong_labels,
    "nested JSON text": _json_texts,
}
MISTAKES: Final = ("wrong name", *_MISTAKES)


def _is_refused(validator: Any, arguments: Arguments, place: Place, mistake: str) -> bool:
    """Return whether the schema refuses the arguments, and for this mistake."""
    errors = [*validator.iter_errors(arguments)]
    if mistake != "wrong enum":
        return bool(errors)
    return any(
        one.validator in ("enum", "const") and tuple(one.absolute_path) == place for one in _with_alternatives(errors)
    )


def _with_alternatives(errors: Sequence[Any]) -> Iterator[Any]:
    for error in errors:
        yield error
        yield from _with_alternatives(error.context or ())


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield place, value
        return
    for key, child in items:
        yield from _leaves(child, (*place, key))


def with_value(arguments: Arguments, place: Place, value: Any) -> Arguments:
    """Return arguments with another value at a place."""
    changed: Any = copy.deepcopy(dict(arguments))
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return changed  # type: ignore[no-any-return]
