"""Repair arguments that a tool's check refuses, where only one thing can be meant.

Agent frameworks send null for what the model left out (CrewAI, LlamaIndex, strict modes of LLM APIs), and models write
numbers, truth values and nested objects as texts. A text becomes the value that it spells only where the schema takes
no text, so nothing is lost: as JSON the value is the text again, but for white space.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from itertools import pairwise
from operator import getitem
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import GatewayError
from gateway.jsonrpc.bounds import value_cost
from gateway.model import Tool
from gateway.schema.validation import MAX_FAULT, ValidatorCache, expected
from gateway.schema.whole_numbers import MOST_EXACT
from gateway.text import excerpt

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_ROUNDS: Final = 5
"""How often nulls are left out: the engine names only so many at once."""
_OF_OBJECTS: Final = ("properties", "patternProperties", "additionalProperties")
_OF_ITSELF: Final = ("type", "enum", "const")
"""Kinds of errors that say of a value that it is of no use, whatever is in it."""


def repair_arguments(
    tool: Tool, arguments: Mapping[str, Any], validators: ValidatorCache, take: Callable[[int], bool]
) -> tuple[Mapping[str, Any], int] | None:
    """Return arguments that the tool's check accepts, and how many texts became values; None where there are none.

    Nulls of optional arguments and members that refuse null are left out. If that is not enough, and the tool
    ``coerces``, texts become values. ``take`` returns whether there is memory for so many bytes more.
    """
    schema = tool.checked_schema
    validator = validators.compile_tool(tool.digest, schema)
    if None in arguments.values():
        properties, required = schema.get("properties", {}), schema.get("required", ())
        alone = validators.compile_alone(schema)
        arguments = {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required or name not in properties or alone.is_valid({name: None})
        }
        if validator.is_valid(arguments):
            return arguments, 0
    if not (errors := validator.errors(arguments)):
        return None
    repaired = jsonrpc.decode(jsonrpc.encode(arguments))  # a copy
    for _ in range(_ROUNDS):
        if not (nulls := dict.fromkeys(_null_members(errors))):
            break
        for *path, last in nulls:
            del reduce(getitem, path, repaired)[last]
        if validator.is_valid(repaired):
            return repaired, 0
        errors = validator.errors(repaired) or []
    texts = dict.fromkeys(_refused_texts(errors)) if tool.coerces else ()
    for *path, last in texts:
        holder = reduce(getitem, path, repaired)
        holder[last] = _spelled(holder[last], take)
    return (repaired, len(texts)) if texts and validator.is_valid(repaired) else None


def in_place(arguments: Mapping[str, Any], repaired: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return repaired arguments in the object of those that came. The message has it until the call ends: values that
    stay in it could not be freed before."""
    if not isinstance(arguments, dict):
        return repaired
    arguments.clear()
    arguments.update(repaired)
    return arguments


def note_nulls(tool: Tool, left_out: Iterable[str]) -> str:
    """Return what to add to a service's error about the arguments whose null was left out, and what else fits there."""
    schema = tool.checked_schema
    properties = schema.get("properties", {})  # a part of the schema may have more
    texts = {name: expected(properties.get(name), schema) for name in left_out}
    takes = {name: f"; it takes {text}" if text else "" for name, text in texts.items()}
    return excerpt("".join(f"; {name}: null was left out{text}" for name, text in takes.items()), MAX_FAULT)


def _null_members(errors: list[Any]) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each member of an object that must not be null and has a name in the schema. Of alternatives,
    the one counts that is nearest to the value: another may take a null that is meant."""
    for error in errors:
        # Under a name that the caller chose, as in a map, null may say that the entry goes.
        steps = [step for step in pairwise(error.evaluation_path) if step[0] in _OF_OBJECTS]
        is_named = steps[-1:] == [("properties", *error.instance_path[-1:])]
        # Of a member that may not be there at all, the engine may give the path to the object around it.
        if error.instance is None and is_named and error.kind.name != "falseSchema":
            yield tuple(error.instance_path)
        ranks: defaultdict[tuple[int, int], set[tuple[tuple[str | int, ...], ...]]] = defaultdict(set)
        for errors in getattr(error.kind, "context", None) or ():
            if nulls := tuple(_null_members(errors)):
                ranks[len(errors) - len(nulls), len(nulls)].add(nulls)
        if ranks and len(least := ranks[min(ranks)]) == 1:
            yield from least.pop()


def _refused_texts(errors: Iterable[Any]) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each text that stands where the schema takes none. Of alternatives for an object or a list,
    only one may be left that takes such a value."""
    for error in errors:
        if isinstance(error.instance, str):
            if _takes_no_text(error):
                yield tuple(error.instance_path)
        elif alternatives := getattr(error.kind, "context", None):
            fitting = [
                errors for errors in alternatives if not any(one.kind.name in _OF_ITSELF for one in _at(error, errors))
            ]
            if len(fitting) == 1:
                yield from _refused_texts(fitting[0])


def _at(error: Any, others: Iterable[Any]) -> list[Any]:
    """Return the errors of the same value."""
    return [one for one in others if one.instance_path == error.instance_path]


def _takes_no_text(error: Any) -> bool:
    """Return whether an error of a text says that every text is wrong there."""
    kind = error.kind
    match kind.name:
        case "type":
            return True
        case "enum":
            return not any(isinstance(option, str) for option in kind.options)
        case "const":
            return not isinstance(kind.expected_value, str)
    alternatives = getattr(kind, "context", None) or [[]]
    return all(any(map(_takes_no_text, _at(error, errors))) for errors in alternatives)


def _spelled(text: str, take: Callable[[int], bool]) -> Any:
    """Return the integer, truth value, object or list that a text spells, the text itself where it spells none."""
    if _INTEGER.fullmatch(text) and text != "-0":
        return int(text) if abs(int(text)) <= MOST_EXACT else text
    if text in ("true", "false"):
        return text == "true"
    raw = text.encode()
    if text.lstrip()[:1] in ("{", "[") and take(value_cost(raw)):
        try:
            return jsonrpc.decode_strictly(raw)
        except GatewayError:
            pass
    return text
