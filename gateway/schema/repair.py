"""Repair arguments that a tool's check refuses, where only one thing can be meant.

Agent frameworks send null for what the model left out (CrewAI, strict modes of LLM APIs), and models write numbers,
truth values and nested objects as texts. A text becomes the value that it spells, only where the schema takes no text
there, so nothing is lost: the value written as JSON is the text again, but for white space.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import GatewayError
from gateway.jsonrpc.bounds import value_cost
from gateway.model import Tool
from gateway.schema.validation import ValidatorCache

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_MOST_EXACT: Final = 2**53
"""Integers up to here are the same in every client and service; beyond, some read the nearest fraction."""
_KINDS: Final = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null"
}  # fmt: skip
_ALL: Final = frozenset(_KINDS.values())


def repair_arguments(
    tool: Tool, arguments: Mapping[str, Any], validators: ValidatorCache, take: Callable[[int], bool]
) -> tuple[Mapping[str, Any], int] | None:
    """Return arguments that the tool's check accepts, and how many texts became values; None where there are none.

    Nulls of optional arguments that refuse null are left out. If that is not enough, and the tool ``coerces``, texts
    become values. ``take`` returns whether there is memory for so many bytes more.
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
    if not tool.coerces or not validator.explains(arguments):
        return None
    coercion = _Coercion(schema, take)
    coerced = coercion.value(arguments, [schema])
    return (coerced, coercion.count) if coercion.count and validator.is_valid(coerced) else None


class _Coercion:
    """Make values of the texts in the arguments of one call; ``count`` is how many."""

    def __init__(self, root: Mapping[str, Any], take: Callable[[int], bool]) -> None:
        self._root = root
        self._take = take
        self._known: dict[int, frozenset[str]] = {}
        self.count = 0

    def value(self, value: Any, schemas: Sequence[Any]) -> Any:
        """Return the value of which ``schemas`` must all hold."""
        if isinstance(value, str):
            kinds = _ALL.intersection(*map(self._kinds, schemas))
            found = value if "string" in kinds else self._spelled(value, kinds)
            self.count += found is not value
            return found
        if isinstance(value, dict):
            parts = [*self._applying(value, schemas)]
            return {name: self.value(child, [*_of_member(parts, name)]) for name, child in value.items()}
        if isinstance(value, list):
            parts = [*self._applying(value, schemas)]
            return [self.value(child, [*_of_item(parts, place)]) for place, child in enumerate(value)]
        return value

    def _spelled(self, text: str, kinds: frozenset[str]) -> Any:
        """Return the value of one of these ``kinds`` that a text spells, the text itself where it spells none."""
        if not kinds.isdisjoint(("integer", "number")) and _INTEGER.fullmatch(text) and text != "-0":
            return int(text) if abs(int(text)) <= _MOST_EXACT else text
        if "boolean" in kinds and text in ("true", "false"):
            return text == "true"
        if text.lstrip()[:1] not in ("{", "[") or kinds.isdisjoint(("object", "array")):
            return text
        raw = text.encode("utf-8", "surrogatepass")
        try:
            found = jsonrpc.decode_strictly(raw) if self._take(value_cost(raw)) else text
        except GatewayError:
            return text
        return found if _KINDS[type(found)] in kinds else text

    def _applying(self, value: Any, schemas: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the subschemas that must hold of a value: of alternatives the one for its type, if that is alone."""
        pending = [*schemas]
        while pending:
            schema = pending.pop()
            if isinstance(schema, Mapping):
                yield schema
                pending += self._targets(schema)
                for keyword in ("anyOf", "oneOf"):
                    fitting = [one for one in schema.get(keyword, ()) if _KINDS[type(value)] in self._kinds(one)]
                    pending += fitting if len(fitting) == 1 else ()

    def _targets(self, schema: Mapping[str, Any]) -> list[Any]:
        referred = [jsonrpc.resolve(self._root, schema["$ref"])] if "$ref" in schema else []
        return [*referred, *schema.get("allOf", ())]

    def _kinds(self, schema: Any) -> frozenset[str]:
        """Return the types of values that a schema may accept; it accepts none of another type."""
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else _ALL
        if (known := self._known.get(id(schema))) is not None:
            return known
        kinds, named = _ALL, schema.get("type")
        if named is not None:
            kinds = frozenset([named] if isinstance(named, str) else named)
            kinds |= {"integer"} if "number" in kinds else set()
        for keyword in ("enum", "const"):
            if keyword in schema:
                kinds &= {_KINDS[type(one)] for one in (schema[keyword] if keyword == "enum" else [schema[keyword]])}
        kinds = kinds.intersection(*map(self._kinds, self._targets(schema)))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                kinds &= frozenset[str]().union(*map(self._kinds, schema[keyword]))
        self._known[id(schema)] = kinds
        return kinds


def _of_member(schemas: Sequence[Mapping[str, Any]], name: str) -> Iterator[Any]:
    """Yield what the schemas of an object say of one of its members."""
    for schema in schemas:
        if name in schema.get("properties", {}):
            yield schema["properties"][name]
        elif "additionalProperties" in schema and "patternProperties" not in schema:
            yield schema["additionalProperties"]


def _of_item(schemas: Sequence[Mapping[str, Any]], place: int) -> Iterator[Any]:
    """Yield what the schemas of an array say of one of its items."""
    for schema in schemas:
        first = schema.get("prefixItems", ())
        if place < len(first):
            yield first[place]
        elif "items" in schema:
            yield schema["items"]
