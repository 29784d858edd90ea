"""Schemas of a listing become self-contained JSON Schema 2020-12 of bounded size.

What a ``$ref`` points to within the listing is copied into ``$defs``, as much of it as is needed; a reference out of
the document is never fetched (2026-07-28, basic/index "$ref resolution"). What PHP writes as an empty list where
a map belongs is mended on the way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from gateway import jsonrpc
from gateway.catalog.cost import resolve
from gateway.model import Schema

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_ONE: Final = frozenset(
    ("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems",
     "unevaluatedProperties", "unevaluatedItems", "contentSchema", "items")
)  # fmt: skip
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas"))
_DEFINITIONS: Final = frozenset(("$defs", "definitions"))
_ANCHOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")


class Unsound(Exception):
    """A schema that cannot be published; ``pointer`` is the place within it, ``argument`` the one it is of."""

    def __init__(self, reason: str, pointer: str = "", argument: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer
        self.argument = argument


class Bundler:
    """Collects the schemas of one method into one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._names: dict[tuple[int, str], str] = {}
        self._pending: list[tuple[str, Any, Mapping[str, Any]]] = []
        self.definitions: dict[str, Any] = {}

    def add(self, schema: Schema, pointer: str = "") -> dict[str, Any]:
        """The schema as part of the document. Raises :class:`Unsound`."""
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        converted = self._convert(schema, schema, pointer, 1)
        while self._pending:
            name, target, local = self._pending.pop()
            # A definition is a root of its own: a long chain of them is not deep nesting.
            self.definitions[name] = self._convert(target, local, f"/$defs/{escape(name)}", 1)
        return converted if isinstance(converted, dict) else self.add(converted)

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The document around ``schema``, its root. Raises :class:`Unsound` beyond the bounds."""
        if self.definitions:
            schema = {**schema, "$defs": self.definitions}
        try:
            size = len(jsonrpc.encode(schema))
        except ValueError:
            raise Unsound("the schema cannot be written as JSON") from None
        if size > MAX_BYTES:
            raise Unsound(f"the schema has {size // 1024} KiB, more than {MAX_BYTES // 1024} KiB")
        return schema

    def _convert(self, value: Any, local: Mapping[str, Any], pointer: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Unsound(f"the schema is nested deeper than {MAX_DEPTH} levels", pointer)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping):
            if value in ([], None):
                return {}
            raise Unsound("a subschema is neither an object nor a boolean", pointer)
        converted = {}
        for keyword, content in value.items():
            if keyword in _DEFINITIONS or (keyword in ("$schema", "$id", "id", "$anchor") and isinstance(content, str)):
                continue  # what is referred to has been copied, and identifiers would move the base of references
            converted[keyword] = self._keyword(keyword, content, local, f"{pointer}/{escape(keyword)}", depth)
        if isinstance(converted.get("items"), list):
            converted["prefixItems"] = converted.pop("items")
            if "additionalItems" in converted:
                converted["items"] = converted.pop("additionalItems")
        if converted.get("default") == [] and converted.get("type") == "object":
            converted["default"] = {}
        return _without_dependencies(converted)

    def _keyword(self, keyword: str, content: Any, local: Mapping[str, Any], pointer: str, depth: int) -> Any:
        if keyword == "$ref":
            return self._reference(content, local, pointer, depth)
        if keyword in ("$dynamicRef", "$recursiveRef"):
            raise Unsound(f"{keyword} is not supported", pointer)
        if keyword in _MAPS or keyword == "dependencies":
            if not isinstance(content, Mapping):
                if content in ([], None):
                    return {}
                raise Unsound(f"{keyword} is not an object", pointer)
            return {
                name: child
                if keyword == "dependencies" and isinstance(child, list)
                else _as_object(self._convert(child, local, f"{pointer}/{escape(name)}", depth + 1))
                for name, child in content.items()
            }
        if keyword in _LISTS or (keyword == "items" and isinstance(content, list) and content):
            if not isinstance(content, list):
                raise Unsound(f"{keyword} is not a list", pointer)
            return [self._convert(child, local, f"{pointer}/{index}", depth + 1) for index, child in enumerate(content)]
        if keyword in _ONE:
            return self._convert(content, local, pointer, depth + 1)
        return content

    def _reference(self, reference: Any, local: Mapping[str, Any], pointer: str, depth: int) -> str:
        if not isinstance(reference, str):
            raise Unsound("$ref is not a string", pointer)
        if not reference.startswith("#"):
            raise Unsound(f"$ref {reference[:100]} leads out of the listing, and nothing is fetched", pointer)
        target, home = resolve(self._root, unquote(reference)), self._root
        if not isinstance(target, Mapping | bool) or reference == "#":  # the listing as a whole is no schema
            target, home = resolve(local, unquote(reference)), local
        if not isinstance(target, Mapping | bool):
            raise Unsound(f"$ref {reference[:100]} points to nothing", pointer)
        key = (id(home), reference)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(reference)
            self.definitions[name] = {}  # taken, so that a schema may refer to itself
            self._pending.append((name, target, local))
        return f"#/$defs/{escape(name)}"

    def _free_name(self, reference: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", unquote(reference).rpartition("/")[2]) or "schema"
        name, number = base, 2
        while name in self.definitions:
            name, number = f"{base}_{number}", number + 1
        return name


def bundle(schema: Schema, root: Mapping[str, Any]) -> dict[str, Any]:
    """One schema as a document of its own. Raises :class:`Unsound`.

    A root that only refers to a definition becomes that definition, so that its type can be seen: MCP up to
    2025-11-25 looks for ``type: object`` there.
    """
    bundler = Bundler(root)
    converted = bundler.add(schema)
    prefix = "#/$defs/"
    document = bundler.finish(converted)
    name = str(converted.get("$ref", "")).removeprefix(prefix)
    definition = bundler.definitions.get(name)
    if set(converted) != {"$ref"} or not isinstance(definition, dict) or "type" not in definition:
        return document
    del bundler.definitions[name]
    if jsonrpc.encode(prefix + escape(name)) in jsonrpc.encode([definition, bundler.definitions]):
        bundler.definitions[name] = definition
    return bundler.finish(definition)


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of a whole arguments object: its root an object, its references its own. Raises :class:`Unsound`.

    One of 2020-12 that needs no mending stays word for word, anchors included.
    """
    bundler = Bundler(schema)
    mended = bundler.add(schema)
    if mended.get("type", "object") != "object":
        raise Unsound("the arguments are not an object", "/type")
    dialect = {"$schema": DIALECT} if schema.get("$schema") == DIALECT else {}
    whole = bundler.finish({**dialect, "type": "object", **mended})
    return Bundler(schema).finish(dict(schema)) if _is_less_anchors(whole, schema) else whole


def _is_less_anchors(whole: Any, came: Any) -> bool:
    """Whether ``whole`` is what came without its well-formed anchors."""
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


def _without_dependencies(schema: dict[str, Any]) -> dict[str, Any]:
    """Draft 7's ``dependencies`` are two keywords since, by what they hold."""
    dependencies = schema.pop("dependencies", {})
    for keyword, kind in (("dependentRequired", list), ("dependentSchemas", dict)):
        chosen = {name: value for name, value in dependencies.items() if isinstance(value, kind)}
        if chosen:
            schema[keyword] = {**chosen, **schema.get(keyword, {})}
    return schema


def _as_object(schema: Any) -> Any:
    """MCP up to 2025-11-25 wants the values of ``properties`` to be objects, not booleans."""
    if schema is True:
        return {}
    return {"not": {}} if schema is False else schema


def escape(part: str) -> str:
    """One part of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")
