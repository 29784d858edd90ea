"""Turn schemas of a listing into self-contained JSON Schema 2020-12 of bounded size.

The target of a ``$ref`` within the listing is copied into ``$defs``, and recursion stays a reference. A reference out
of the document is never fetched (2026-07-28, basic/index "$ref resolution"). Older drafts are rewritten at every level.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from gateway import jsonrpc
from gateway.jsonrpc import escape_pointer, parts_of
from gateway.model import Schema
from gateway.model.schema_keywords import ANNOTATIONS, DEFINITIONS, LISTS, MAPS, ONE, with_schemas
from gateway.schema.drafts import add_keyword, upgrade_keywords
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
# Where upgrade_keywords renamed a keyword, pointers to faults have the name that the listing has.
_WRITTEN_AS: Final = {
    "prefixItems": "items", "dependentSchemas": "dependencies", "allOf": "extends", "not": "disallow", "anyOf": "type",
    "$ref": "$recursiveRef", "enum": "enums",
}  # fmt: skip
_NESTED: Final = MAX_DEPTH // 2
"""Level below which :func:`shorten_schema` inlines nothing, so that what it returns is not much deeper."""
_USE: Final = re.compile(r'"\$ref":"([^"\\]*)"')
_ANCHOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_PREFIX: Final = "#/$defs/"


class UnsoundSchema(Exception):
    """Raised where a schema cannot be published. ``pointer`` leads to the fault, ``argument`` names its argument."""

    def __init__(self, reason: str, pointer: str = "", argument: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer
        self.argument = argument


class Bundler:
    """Collect the schemas of one method in one document. ``root`` is the listing that they may refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._references = ReferenceResolver(root)
        self._names: dict[tuple[int, bool], str] = {}
        self._kept_alive: list[Schema] = []
        self._pending: list[tuple[str, Schema, SchemaScope, bool]] = []
        self._repeated: Counter[str] = Counter()
        self._remaining = MAX_SUBSCHEMAS
        self.definitions: dict[str, Any] = {}

    def add_schema(self, schema: Schema, pointer: str = "") -> dict[str, Any]:
        """Return the schema as part of the document. Raises :class:`UnsoundSchema`."""
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        self._kept_alive.append(schema)  # self._names goes by id(), which must not be reused
        converted = self._convert(schema, SchemaScope.of(schema if isinstance(schema, Mapping) else {}), pointer, 1)
        while self._pending:
            name, target, scope, extended = self._pending.pop()
            # A definition is a root of its own: a long chain of them is not deep nesting.
            self.definitions[name] = self._convert(target, scope, f"/$defs/{escape_pointer(name)}", 1, extended)
        return converted if isinstance(converted, dict) else self.add_schema(converted)

    def inline_root(self, converted: dict[str, Any]) -> dict[str, Any]:
        """Return what the root refers to, where it is a ``$ref`` alone, to what has a type: MCP up to 2025-11-25 looks
        for ``type: object`` at the root, and clients look there for ``properties``. Raises :class:`UnsoundSchema`."""
        name = str(converted.get("$ref", "")).removeprefix(_PREFIX)
        definition = self.definitions.get(name)
        if converted.keys() != {"$ref"} or not isinstance(definition, dict) or "type" not in definition:
            return converted
        self.finish(converted)  # what cannot be written as JSON could not be searched either
        del self.definitions[name]
        if jsonrpc.encode(_PREFIX + name) in jsonrpc.encode([definition, self.definitions]):
            self.definitions[name] = definition
        return definition

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the document whose root is ``schema``. Raises :class:`UnsoundSchema` where it is over the bounds."""
        if self.definitions:
            schema = {**schema, "$defs": self.definitions}
        size = _size(schema)
        if size == math.inf:
            raise UnsoundSchema("the schema cannot be written as JSON", _largest_part(schema))
        if size > MAX_BYTES:
            what = f"the schema has {size // 1024} KiB, more than {MAX_BYTES // 1024} KiB"
            raise UnsoundSchema(what, _largest_part(schema))
        return schema

    def _convert(self, value: Any, scope: SchemaScope, pointer: str, depth: int, extended: bool = False) -> Any:
        """Return a subschema in 2020-12. An ``extended`` one must not refuse the properties of those that extend it."""
        self._remaining -= 1
        if self._remaining < 0:
            raise UnsoundSchema(f"the schema has more than {MAX_SUBSCHEMAS} subschemas", pointer)
        if depth > MAX_DEPTH:
            raise UnsoundSchema(f"the schema is nested deeper than {MAX_DEPTH} levels", pointer)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping):
            if value in ([], None):  # what PHP writes for an empty object, and other languages for none
                return {}
            raise UnsoundSchema("a subschema is neither an object nor a boolean", pointer)
        scope = scope.within(value)
        keywords = upgrade_keywords(value, scope.draft)
        given = keywords.pop("extends", []) if scope.draft in (None, 3) else []
        bases = [self._convert(base, scope, f"{pointer}/extends", depth + 1, extended=True) for base in given]
        converted: dict[str, Any] = {}
        for keyword, content in keywords.items():
            if keyword in _WALKED:
                listed = keyword if keyword in value else _WRITTEN_AS.get(keyword, keyword)
                inner_pointer = f"{pointer}/{escape_pointer(listed)}"
                if keyword in _REFERENCES:
                    converted[keyword] = self._reference(keyword, content, scope, inner_pointer, extended)
                else:
                    converted[keyword] = self._walk(keyword, content, scope, inner_pointer, depth)
            elif keyword not in DEFINITIONS and not (keyword in _IDENTIFIERS and isinstance(content, str)):
                # Definitions are copied where they are referred to. An identifier would change the base of references.
                converted[keyword] = content
        if bases:
            converted["allOf"] = [*bases, *converted.get("allOf", ())]
        if extended:
            _allow_other_properties(converted)
        return _with_one_reference(converted)

    def _walk(self, keyword: str, content: Any, scope: SchemaScope, pointer: str, depth: int) -> Any:
        if keyword in _MAPS:
            if not isinstance(content, Mapping):
                if content == []:
                    return {}
                raise UnsoundSchema(f"{keyword} is not an object", pointer)
            return {  # str, since a listing file in YAML may have numbers as names
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

    def _reference(self, keyword: str, reference: Any, scope: SchemaScope, pointer: str, extended: bool) -> str:
        if not isinstance(reference, str):
            raise UnsoundSchema(f"{keyword} is not a string", pointer)
        dynamic = keyword != "$ref" or pointer.endswith("/$recursiveRef")
        if dynamic and self._references.dynamic_targets(scope) > 1:
            raise UnsoundSchema(f"the target of {keyword} depends on the path to it, which is not supported", pointer)
        found = self._references.find_target(reference, scope)
        if found is None:
            fault = "points to nothing"
            if not reference.startswith("#"):
                fault = "leads out of the listing, and nothing is fetched (backend.listing.documents)"
            raise UnsoundSchema(f"{keyword} {excerpt(reference, 100)} {fault}", pointer)
        target, home = found
        key = (id(target), extended)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(reference)
            self.definitions[name] = {}  # reserves the name: a schema may refer to itself
            self._pending.append((name, target, home, extended))
        return _PREFIX + escape_pointer(name)

    def _free_name(self, reference: str) -> str:
        # No dots: some LLM APIs refuse them in names of definitions as in those of tools.
        base = re.sub(r"[^A-Za-z0-9_-]+", "_", re.split("[/#]", unquote(reference))[-1]) or "schema"
        name = base
        while name in self.definitions:
            self._repeated[base] += 1
            name = f"{base}_{self._repeated[base] + 1}"
        return name


def bundle_schema(schema: Schema, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return one schema as a document of its own. Raises :class:`UnsoundSchema`."""
    bundler = Bundler(root)
    return bundler.finish(bundler.inline_root(bundler.add_schema(schema)))


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the self-contained schema of a whole arguments object. One that needs no repair stays as it is, anchors
    included. Raises :class:`UnsoundSchema`."""
    bundler = Bundler(schema)
    converted = bundler.inline_root(bundler.add_schema(schema))
    kind = converted.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnsoundSchema("the arguments are not an object", "/type")
    dialect = {"$schema": DIALECT} if schema.get("$schema") == DIALECT else {}
    whole = bundler.finish({**dialect, "type": "object", **converted} | {"type": "object"})
    return Bundler(schema).finish(dict(schema)) if whole == _without_anchors(schema) else whole


def _allow_other_properties(schema: dict[str, Any]) -> None:
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if schema.get(keyword) is False:
            del schema[keyword]


def _with_one_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a dynamic reference by a plain one, which means the same in a document of one resource."""
    if "$dynamicRef" in schema:
        add_keyword(schema, "$ref", schema.pop("$dynamicRef"))
    return schema


def _size(schema: Any) -> float:
    try:
        return len(jsonrpc.encode_canonical(schema))
    except ValueError:
        return math.inf


def _largest_part(schema: Mapping[str, Any]) -> str:
    """Return the pointer to the property that takes the most bytes, empty where there is none."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return ""
    return f"/properties/{escape_pointer(max(properties, key=lambda name: _size(properties[name])))}"


def _without_anchors(schema: Any) -> Any:
    """Return a schema without its well-formed anchors."""
    if not isinstance(schema, Mapping):
        return schema
    return {
        keyword: with_schemas(keyword, content, _without_anchors)
        for keyword, content in schema.items()
        if not (keyword == "$anchor" and isinstance(content, str) and _ANCHOR.fullmatch(content))
    }


def _as_object(schema: Any) -> Any:
    """Return a schema as an object: MCP up to 2025-11-25 allows no boolean as a value of ``properties``."""
    if schema is True:
        return {}
    return {"not": {}} if schema is False else schema


def shorten_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema for models, which accepts the same values in fewer tokens; the same object where nothing is
    saved. A definition that one ``$ref`` names takes its place, and a title goes that only repeats the name of its
    property. A schema that names its dialect stays: its author wrote it for clients that know JSON Schema."""
    raw = jsonrpc.encode(schema)
    uses = Counter(_USE.findall(raw.decode()))  # also in data such as a default: then the definition stays
    definitions = {_PREFIX + escape_pointer(name): part for name, part in schema.get("$defs", {}).items()}
    # The target of a pointer into a definition, or to the root, must stay in its place.
    if "$schema" in schema or uses.keys() - definitions or not (uses or b'"title":' in raw):
        return schema
    kept: list[str] = []

    def shorten(part: Any, name: str, depth: int) -> Any:
        if not isinstance(part, Mapping):
            return part
        short: dict[str, Any] = {}
        for keyword, content in part.items():
            if keyword in MAPS and isinstance(content, Mapping):
                short[keyword] = {named: shorten(child, named, depth + 1) for named, child in content.items()}
            else:
                short[keyword] = with_schemas(keyword, content, lambda child: shorten(child, "", depth + 1))
        reference = short["$ref"] if isinstance(short.get("$ref"), str) else ""
        if uses[reference] == 1 and depth <= _NESTED:
            del short["$ref"]
            target = shorten(_as_object(definitions[reference]), "", depth + 1)
            short = _in_place(target, short)
        elif reference:
            kept.append(reference)
        if name and _letters(short.get("title")) == _letters(name):
            del short["title"]
        return short

    whole = shorten({keyword: part for keyword, part in schema.items() if keyword != "$defs"}, "", 1)
    names: dict[str, Any] = {}
    while kept:
        if (name := kept.pop().removeprefix(_PREFIX)) not in names:
            names[name] = None  # it may refer to itself
            names[name] = shorten(definitions[_PREFIX + name], name, 1)
    if names:
        whole["$defs"] = {parts_of(f"/{name}")[0]: names[name] for name in names}
    return schema if whole == schema else whole


def _in_place(target: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with what stands ``beside`` its reference: there, other keywords would change its meaning."""
    if beside.keys() <= ANNOTATIONS:
        return {**target, **beside}
    return {**beside, "allOf": [*beside.get("allOf", ()), target]}


def _letters(text: Any) -> str | None:
    return re.sub(r"[\W_]+", "", text).casefold() if isinstance(text, str) else None
