"""Read the text of an error as a program would, and tell whether it says how to mend the call.

The reader knows the usual words for a fault and nothing of the gateway, the tool, or the mistake. It takes the first
fault that it understands: where the call is wrong, and which values or types would be right there. The judge then knows
the mistake, and tells whether that is the place, and whether what the reader would put there is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lab.agents.mistakes import Try

_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")
_PATH: Final = re.compile(r"(?:^|(?<=[:;.] ))([A-Za-z_][^\s:;'\"]*): ")
_NO_TOOL: Final = re.compile(r"unknown tool|no tool|no such tool|tool not found", re.IGNORECASE)
_SUGGESTED: Final = re.compile(r"did you mean ['\"`]?([^\s'\"`?,;]+)", re.IGNORECASE)
_REQUIRED: Final = re.compile(r"['\"`]([^'\"`]+)['\"`] is (?:a )?(?:required|missing)")
_UNEXPECTED: Final = re.compile(r"['\"`]([^'\"`]+)['\"`] (?:was|is) (?:unexpected|unknown)")
_NO_ARGUMENTS: Final = re.compile(r"takes no arguments", re.IGNORECASE)
_VALID_NAMES: Final = re.compile(r"valid are (.+)", re.DOTALL)
_EXPECTED: Final = re.compile(
    r"(?:not of types?|must be|should be|expected|expects|takes|needs|send|required property|required|missing)\b(.*)",
    re.DOTALL,
)
_ONE_OF: Final = re.compile(r"(?:one of|valid are|valid is|did you mean|such as|for example)\b:? (.*)", re.DOTALL)
_LITERAL: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|-?\b\d+(?:\.\d+)?\b|\btrue\b|\bfalse\b")


@dataclass(frozen=True)
class Repair:
    """Hold what a text says to change: the tool's name, or one argument, which is left out or becomes one of ``values``
    or one of ``types``."""

    tool: str = ""
    place: str = ""
    leave_out: bool = False
    values: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()


def read_repair(text: str) -> Repair | None:
    """Return the first repair that the text of an error tells, None for a text that tells none."""
    if _NO_TOOL.search(text):
        suggested = _SUGGESTED.search(text)
        return Repair(tool=suggested[1].rstrip(".")) if suggested else None
    if _NO_ARGUMENTS.search(text):
        return Repair(leave_out=True)
    unexpected = _UNEXPECTED.search(text)
    if unexpected:
        return Repair(place=unexpected[1], leave_out=True) if _VALID_NAMES.search(text) else None
    required = _REQUIRED.search(text)
    if required:
        path = _PATH.search(text[: required.start()])
        prefix = f"{path[1]}/" if path else ""
        return _complete(prefix + required[1], text[required.end(1) + 1 :])
    path = _PATH.search(text.removeprefix("Invalid arguments: "))
    return _complete(path[1], text) if path else None


def _complete(place: str, rest: str) -> Repair | None:
    expected, one_of = _EXPECTED.search(rest), _ONE_OF.search(rest)
    types = tuple(word for word in re.findall(r"[a-z]+", expected[1])) if expected else ()
    values = tuple(_literals(one_of[1])) if one_of else ()
    known = tuple(word for word in types if word in _TYPES)
    return Repair(place=place, values=values, types=known) if values or known else None


def _literals(text: str) -> Iterator[Any]:
    for literal in _LITERAL.findall(text):
        try:
            yield json.loads(literal)
        except ValueError:
            yield literal[1:-1]


def is_mended(repair: Repair | None, wrong: Try, name: str, right: Any, accepts: Callable[[Any], bool]) -> bool:
    """Return whether a repair changes the right thing to something valid. ``name`` is the tool's, ``right`` the value
    that stood where the call is wrong now, and ``accepts`` says whether a value makes the call valid there."""
    if repair is None:
        return False
    if not wrong.place:
        return repair.tool == name
    if wrong.mistake == "extra argument":
        return repair.leave_out and repair.place in ("", wrong.place[0])
    if repair.leave_out or repair.place != "/".join(map(str, wrong.place)):
        return False
    is_other_type = wrong.mistake != "wrong enum"  # whose value has the right type already
    return (is_other_type and bool(types_of(right) & {*repair.types})) or any(map(accepts, repair.values[:1]))


def types_of(value: Any) -> set[str]:
    """Return JSON Schema's words for the type of a value."""
    if value is None or isinstance(value, bool):
        return {"null" if value is None else "boolean"}
    if isinstance(value, int | float):
        return {"integer", "number"} if isinstance(value, int) else {"number"}
    return {"string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"}
