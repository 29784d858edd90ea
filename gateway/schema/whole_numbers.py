"""Write whole numbers as integers where a tool's schema takes integers alone.

To JSON Schema 5.0 is the integer 5 (2020-12, validation §6.1.1), and many services refuse it. Which subschemas apply to
a place is found once for each place, when a value is first there.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from gateway.concurrency.turns import Turns, run_in_turns
from gateway.jsonrpc import resolve
from gateway.model.schema_keywords import IN_PLACE_LISTS, in_place

MOST_EXACT: Final = 2**53
"""Integers up to here are the same in every client and service; beyond, some read the nearest fraction."""
MAY_CHANGE: Final = frozenset((float, dict, list))
"""Types of values that may be whole numbers with a point, or have some in them."""
_COMBINING: Final = ("then", "else", *IN_PLACE_LISTS, "dependentSchemas")
"""Keywords for schemas of the same value, without those that it need not match."""
_EACH: Final = 500
"""Items of a list that are looked at in one step."""
_MOST_APPLIED: Final = 10_000
"""Subschemas that are followed, each once for each way to it: some 50 ms in all. A place beyond is left as it is."""


class _Place(Struct, eq=False):
    """Hold the subschemas that apply to a place of a value; of its members and items, which ones a subschema names, and
    their own places, each under its name or index, or under the type of these for all others."""

    schemas: list[Mapping[str, Any]]
    is_integer: bool
    named: set[str | int]
    inner: dict[Any, "_Place | None"] = field(default_factory=dict)


class IntegerPlaces:
    """Know the places of one sound, self-contained schema where a subschema takes integers and none takes numbers.
    Members of objects with ``patternProperties`` are left alone."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._places: dict[frozenset[int], _Place] = {}
        self._left = _MOST_APPLIED
        self._first = self._place([schema])

    async def write_whole(self, arguments: Mapping[str, Any]) -> None:
        """Replace whole numbers of valid arguments, such as 5.0, up to :data:`MOST_EXACT` by integers, at those places.
        Other tasks get turns meanwhile."""
        await run_in_turns(self.steps(arguments), Turns())

    def steps(self, arguments: Mapping[str, Any]) -> Generator[None, None, None]:
        """Do what :meth:`write_whole` does, and yield after each step."""
        pending: list[tuple[Any, _Place | None]] = [(arguments, self._first)]
        while pending:
            holder, place = pending.pop()
            if place is None:
                continue
            steps = list(range(len(holder)) if isinstance(holder, list) else holder)
            for begin in range(0, len(steps), _EACH):
                pending += self._inside(holder, steps[begin : begin + _EACH], place)
                yield

    def _inside(self, holder: Any, steps: Iterable[Any], place: _Place) -> Iterator[tuple[Any, _Place]]:
        """Write some members or items, and yield those that hold others, with their places."""
        known, named = place.inner, place.named
        for step in steps:
            value = holder[step]
            kind = type(value)
            if kind not in MAY_CHANGE:
                continue
            inner = known.get(step if step in named else type(step)) or self._inner(place, step)
            if inner is None:
                continue
            if kind is not float:
                yield value, inner
            elif inner.is_integer and value.is_integer() and -MOST_EXACT <= value <= MOST_EXACT:
                holder[step] = int(value)

    def _inner(self, place: _Place, step: str | int) -> _Place | None:
        """Return the place of a member or an item, None where no subschema applies."""
        key = step if step in place.named else type(step)
        try:
            return place.inner[key]
        except KeyError:
            inner = place.inner[key] = self._place(_of_inner(place, key))
            return inner

    def _place(self, applied: Iterable[Any]) -> _Place | None:
        """Return the place that these schemas apply to, with those that they combine and refer to."""
        if self._left < 0:
            return None
        pending, schemas = list(applied), dict[int, Mapping[str, Any]]()
        while pending:
            schema = pending.pop()
            if not isinstance(schema, Mapping) or id(schema) in schemas:
                continue
            schemas[id(schema)] = schema
            pending += in_place({keyword: schema[keyword] for keyword in _COMBINING if keyword in schema})
            if "$ref" in schema:
                pending.append(resolve(self._root, schema["$ref"]))
        self._left -= len(schemas)
        key = frozenset(schemas)
        if schemas and key not in self._places:
            self._places[key] = _new_place(list(schemas.values()))
        return self._places.get(key)


def _new_place(schemas: list[Mapping[str, Any]]) -> _Place:
    types, named = set[str](), set[str | int]()
    for schema in schemas:
        kinds = schema.get("type", ())
        types.update((kinds,) if isinstance(kinds, str) else kinds)
        named.update(schema.get("properties", ()), range(len(schema.get("prefixItems", ()))))
    return _Place(schemas, "integer" in types and "number" not in types, named)


def _of_inner(place: _Place, key: Any) -> list[Any]:
    """Return the schemas that apply to a member or an item."""
    if key is int or isinstance(key, int):
        prefixes = [schema.get("prefixItems", ()) for schema in place.schemas]
        return [
            prefix[key] if isinstance(key, int) and key < len(prefix) else schema.get("items")
            for schema, prefix in zip(place.schemas, prefixes, strict=True)
        ]
    if any("patternProperties" in schema for schema in place.schemas):
        return []
    return [schema.get("properties", {}).get(key, schema.get("additionalProperties")) for schema in place.schemas]
