"""Compiled checks of arguments and results against the schemas that backends declare.

The engine is jsonschema_rs: offline, so that no reference is ever fetched, with regular expressions of linear time.
Deciding is cheap; collecting the errors of combined alternatives is not, so details are only given for schemas of
small breadth. A pattern that the linear engine refuses (look-around, back-reference) is left out of the check alone:
the tool is published as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

import jsonschema_rs
from cachetools import LRUCache

from gateway import jsonrpc
from gateway.catalog.cost import TooCostly, breadth
from gateway.catalog.schemas import Unsound, escape
from gateway.text import cap, printable

MAX_FAULTS: Final = 20
_EXPLAINED_BREADTH: Final = 256
_FAULT_BYTES: Final = 300
_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=256 * 1024)
_DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Validator:
    """A compiled schema. ``is_valid`` decides; ``faults`` says what is wrong, up to :data:`MAX_FAULTS` places."""

    __slots__ = ("_engine", "_explains", "is_valid")

    is_valid: Callable[[Any], bool]

    def __init__(self, engine: Any, explains: bool) -> None:
        self.is_valid = engine.is_valid
        self._engine = engine
        self._explains = explains

    def faults(self, value: Any) -> list[str]:
        if not self._explains:
            return ["the value does not match the schema"]
        found = {_fault(error): None for error in islice(self._engine.iter_errors(value), MAX_FAULTS)}
        return list(found)


def _fault(error: Any) -> str:
    path = "/".join(str(part) for part in error.instance_path)
    text = cap(printable(error.message), _FAULT_BYTES)
    return f"{path}: {text}" if path else text


class Validators:
    """Compiles schemas, each once: equal schemas share one validator."""

    def __init__(self, most: int = 10_000) -> None:
        self._compiled: LRUCache[bytes, Validator] = LRUCache(most)
        self._by_digest: LRUCache[str, Validator] = LRUCache(2 * most)

    def compile(self, schema: Mapping[str, Any]) -> Validator:
        """Raises :class:`Unsound` for what is no schema, or one whose check could be made to take long."""
        key = jsonrpc.canonical(schema)
        known = self._compiled.get(key)
        if known is None:
            known = self._compiled[key] = _compile(schema)
        return known

    def compile_tool(self, digest: str, schema: Mapping[str, Any]) -> Validator:
        """The same by a digest that stands for the schema, which spares the hot path from serializing it."""
        known = self._by_digest.get(digest)
        if known is None:
            known = self._by_digest[digest] = self.compile(schema)
        return known


def _compile(schema: Mapping[str, Any]) -> Validator:
    try:
        applicators = breadth(schema)
    except TooCostly as error:
        raise Unsound(str(error)) from None
    try:
        engine = _engine(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        without = _without_refused_patterns(schema)
        if without == schema:
            raise Unsound(_reason(error), _pointer(error)) from None
        try:
            engine = _engine(without)
        except (ValueError, jsonschema_rs.ReferencingError) as again:
            raise Unsound(_reason(again), _pointer(again)) from None
    return Validator(engine, applicators <= _EXPLAINED_BREADTH)


def _engine(schema: Mapping[str, Any]) -> Any:
    whole = {"$schema": _DEFAULT_DIALECT, **schema}
    return jsonschema_rs.validator_for(whole, offline=True, pattern_options=_PATTERNS)


def _reason(error: Exception) -> str:
    return f"not a JSON Schema: {cap(printable(getattr(error, 'message', str(error))), _FAULT_BYTES)}"


def _pointer(error: Exception) -> str:
    return "".join(f"/{escape(str(part))}" for part in getattr(error, "instance_path", ()))


def _without_refused_patterns(value: Any, within_map: bool = False) -> Any:
    if isinstance(value, list):
        return [_without_refused_patterns(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for key, child in value.items():
        if key == "pattern" and isinstance(child, str) and not within_map and not _is_accepted(child):
            continue
        if key == "patternProperties" and isinstance(child, Mapping) and not within_map:
            child = {pattern: schema for pattern, schema in child.items() if _is_accepted(pattern)}
        kept[key] = _without_refused_patterns(child, not within_map and key in ("properties", "$defs"))
    return kept


def _is_accepted(pattern: str) -> bool:
    try:
        _engine({"pattern": pattern})
    except ValueError:
        return False
    return True
