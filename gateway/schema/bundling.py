"""Schemas of a listing become self-contained JSON Schema 2020-12 of bounded size.

What a ``$ref`` leads to within the listing is copied into ``$defs``, as much of it as is needed, and recursion stays a
reference; one out of the document is never fetched (2026-07-28, basic/index "$ref resolution"). Older drafts and what
PHP makes of empty maps are mended on the way, at every level (:mod:`gateway.schema.drafts`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from gateway import jsonrpc
from gateway.json_pointer import escape_pointer
from gateway.json_schema import DEFINITIONS, LISTS, MAPS, ONE
from gateway.model import Schema
from gateway.schema.drafts import upgrade_keywords
from gateway.schema.references import ReferenceResolver, SchemaScope
from gateway.text import excerpt

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
MAX_SUBSCHEMAS: Final = 2000
MAX_ENUM: Final = 1000
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_MAPS: Final = MAPS - DEFINITIONS
_REFERENCES: Final = frozenset(("$ref", "$dynamicRef"))
_WALKED: Final = ONE | LISTS | _MAPS | _REFERENCES | {"enum"}
_IDENTIFIERS: Final = frozenset(("$schema", "$id", "id", "$anchor"))
_WRITTEN_AS: Final = {
    "prefixItems": "items", "dependentSchemas": "dependencies", "allOf": "extends", "not": "disallow", "anyOf": "type",
    "$ref": "$recursiveRef", "enum": "enums",
}  # fmt: skip
_ANCHOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_PREFIX: Final = "#/$defs/"


class UnsoundSchema(Exception):
    """A schema that cannot be published; ``pointer`` is the place within it, ``argument`` the one it is of."""

    def __init__(self, reason: str, pointer: str = "", argument: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer
        self.argument = argument


class Bundler:
    """Collects the schemas of one method into one document. ``root`` is the listing that they may refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._references = ReferenceResolver(root)
        self._names: dict[tuple[int, bool], str] = {}
        self._kept_alive: list[Schema] = []
        self._pending: list[tuple[str, Schema, SchemaScope, bool]] = []
        self._repeated: Counter[str] = Counter()
        self._remaining = MAX_SUBSCHEMAS
        self.definitions: dict[str, Any] = {}

    def add_schema(self, schema: Schema, pointer: str = "") -> dict[str, Any]:
        """The schema as part of the document. Raises :class:`UnsoundSchema`."""
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        self._kept_alive.append(schema)  # kept, so that nothing else gets its id
        converted = self._convert(schema, SchemaScope.of(schema if isinstance(schema, Mapping) else {}), pointer, 1)
        while self._pending:
            name, target, scope, opened = self._pending.pop()
            # A definition is a root of its own: a long chain of them is not deep nesting.
            self.definitions[name] = self._convert(target, scope, f"/$defs/{escape_pointer(name)}", 1, opened)
        return converted if isinstance(converted, dict) else self.add_schema(converted)

    def inline_root(self, converted: dict[str, Any]) -> dict[str, Any]:
        """What the root of the document refers to, where it does nothing but refer to one definition with a type.

        MCP up to 2025-11-25 looks for ``type: object`` at the root, and clients look there for ``properties``.
        """
        name = str(converted.get("$ref", "")).removeprefix(_PREFIX)
        definition = self.definitions.get(name)
        if converted.keys() != {"$ref"} or not isinstance(definition, dict) or "type" not in definition:
            return converted
        del self.definitions[name]
        if jsonrpc.encode(_PREFIX + name) in jsonrpc.encode([definition, self.definitions]):
            self.definitions[name] = definition
        return definition

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The document around ``schema``, its root. Raises :class:`UnsoundSchema` beyond the bounds."""
        if self.definitions:
            schema = {**schema, "$defs": self.definitions}
        size = _size(schema)
        if size == math.inf:
            raise UnsoundSchema("the schema cannot be written as JSON", _largest_part(schema))
        if size > MAX_BYTES:
            raise UnsoundSchema(
                f"the schema has {size // 1024} KiB, more than {MAX_BYTES // 1024} KiB", _largest_part(schema)
            )
        return schema

    def _convert(self, value: Any, scope: SchemaScope, pointer: str, depth: int, opened: bool = False) -> Any:
        """A subschema; ``opened``: as one that others extend, so that it cannot be closed to their properties."""
        self._remaining -= 1
        if self._remaining < 0:
            raise UnsoundSchema(f"the schema has more than {MAX_SUBSCHEMAS} subschemas", pointer)
        if depth > MAX_DEPTH:
            raise UnsoundSchema(f"the schema is nested deeper than {MAX_DEPTH} levels", pointer)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping):
            if value in ([], None):
                return {}
            raise UnsoundSchema("a subschema is neither an object nor a boolean", pointer)
        scope = scope.within(value)
        keywords = upgrade_keywords(value, scope.draft)
        extended = _bases(keywords, scope)
        bases = [self._convert(base, scope, f"{pointer}/extends", depth + 1, opened=True) for base in extended]
        converted: dict[str, Any] = {}
        for keyword, content in keywords.items():
            if keyword in _WALKED:
                inner_pointer = (
                    f"{pointer}/{escape_pointer(keyword if keyword in value else _WRITTEN_AS.get(keyword, keyword))}"
                )
                if keyword in _REFERENCES:
                    converted[keyword] = self._reference(keyword, content, scope, inner_pointer, opened)
                else:
                    converted[keyword] = self._walk(keyword, content, scope, inner_pointer, depth)
            elif keyword not in DEFINITIONS and not (keyword in _IDENTIFIERS and isinstance(content, str)):
                # What is referred to is copied, and identifiers would move the base of references.
                converted[keyword] = content
        if bases:
            converted["allOf"] = [*bases, *converted.get("allOf", ())]
        if opened:
            _open(converted)
        return _with_one_reference(converted)

    def _walk(self, keyword: str, content: Any, scope: SchemaScope, pointer: str, depth: int) -> Any:
        if keyword in _MAPS:
            if not isinstance(content, Mapping):
                if content == []:
                    return {}
                raise UnsoundSchema(f"{keyword} is not an object", pointer)
            return {  # a file in YAML may have names that are numbers
                str(name): _as_object(self._convert(child, scope, f"{pointer}/{escape_pointer(str(name))}", depth + 1))
                for name, child in content.items()
            }
        if keyword in ONE:
            return self._convert(content, scope, pointer, depth + 1)
        if not isinstance(content, list):
            raise UnsoundSchema(f"{keyword} is not a list", pointer)
        if keyword == "enum":
            if len(content) > MAX_ENUM:
                raise UnsoundSchema(f"enum has {len(content)} values, more than {MAX_ENUM}", pointer)
            return content
        return [self._convert(child, scope, f"{pointer}/{index}", depth + 1) for index, child in enumerate(content)]

    def _reference(self, keyword: str, reference: Any, scope: SchemaScope, pointer: str, opened: bool) -> str:
        if not isinstance(reference, str):
            raise UnsoundSchema(f"{keyword} is not a string", pointer)
        dynamic = keyword != "$ref" or pointer.endswith("/$recursiveRef")
        if dynamic and self._references.dynamic_targets(scope) > 1:
            raise UnsoundSchema(f"what {keyword} leads to depends on the way there, which is not supported", pointer)
        found = self._references.find_target(reference, scope)
        if found is None:
            inner = reference.startswith("#")
            where = (
                "points to nothing"
                if inner
                else "leads out of the listing, and nothing is fetched (backend.listing.documents)"
            )
            raise UnsoundSchema(f"{keyword} {excerpt(reference, 100)} {where}", pointer)
        target, home = found
        key = (id(target), opened)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(reference)
            self.definitions[name] = {}  # taken, so that a schema may refer to itself
            self._pending.append((name, target, home, opened))
        return _PREFIX + escape_pointer(name)

    def _free_name(self, reference: str) -> str:
        # Without dots, which some LLM APIs refuse in these names as in those of tools.
        base = re.sub(r"[^A-Za-z0-9_-]+", "_", re.split("[/#]", unquote(reference))[-1]) or "schema"
        name = base
        while name in self.definitions:
            self._repeated[base] += 1
            name = f"{base}_{self._repeated[base] + 1}"
        return name


def bundle_schema(schema: Schema, root: Mapping[str, Any]) -> dict[str, Any]:
    """One schema as a document of its own. Raises :class:`UnsoundSchema`."""
    bundler = Bundler(root)
    converted = bundler.add_schema(schema)
    bundler.finish(converted)
    return bundler.finish(bundler.inline_root(converted))


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of a whole arguments object: its root an object, its references its own. Raises :class:`UnsoundSchema`.

    One of 2020-12 that needs no mending stays word for word, anchors included.
    """
    bundler = Bundler(schema)
    mended = bundler.inline_root(bundler.add_schema(schema))
    kind = mended.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnsoundSchema("the arguments are not an object", "/type")
    dialect = {"$schema": DIALECT} if schema.get("$schema") == DIALECT else {}
    whole = bundler.finish({**dialect, "type": "object", **mended} | {"type": "object"})
    return Bundler(schema).finish(dict(schema)) if _is_less_anchors(whole, schema) else whole


def _bases(keywords: dict[str, Any], scope: SchemaScope) -> list[Any]:
    return keywords.pop("extends", []) if scope.draft in (None, 3) else []


def _open(schema: dict[str, Any]) -> None:
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if schema.get(keyword) is False:
            del schema[keyword]


def _with_one_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """In a document of one resource a dynamic reference is a plain one."""
    if "$dynamicRef" in schema:
        reference = schema.pop("$dynamicRef")
        if "$ref" in schema:
            schema["allOf"] = [*schema.get("allOf", ()), {"$ref": reference}]
        else:
            schema["$ref"] = reference
    return schema


def _size(schema: Any) -> float:
    try:
        return len(jsonrpc.encode_canonical(schema))
    except ValueError:
        return math.inf


def _largest_part(schema: Mapping[str, Any]) -> str:
    """The pointer to the property, if any, that takes most of the bytes."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return ""
    return f"/properties/{escape_pointer(max(properties, key=lambda name: _size(properties[name])))}"


def _is_less_anchors(whole: Any, came: Any) -> bool:
    """Tell whether ``whole`` is what came without its well-formed anchors."""
    if isinstance(came, list):
        return isinstance(whole, list) and len(whole) == len(came) and all(map(_is_less_anchors, whole, came))
    if not (isinstance(came, Mapping) and isinstance(whole, Mapping)):
        return bool(whole == came and type(whole) is type(came))
    lost = came.keys() - whole.keys()
    if lost == {"$anchor"} and (not isinstance(came["$anchor"], str) or not _ANCHOR.fullmatch(came["$anchor"])):
        return False
    return (
        lost <= {"$anchor"}
        and len(came) == len(whole) + len(lost)
        and all(_is_less_anchors(child, came[key]) for key, child in whole.items())
    )


def _as_object(schema: Any) -> Any:
    """MCP up to 2025-11-25 wants the values of ``properties`` to be objects, not booleans."""
    if schema is True:
        return {}
    return {"not": {}} if schema is False else schema
