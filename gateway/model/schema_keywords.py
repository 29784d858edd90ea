"""List the keywords of JSON Schema 2020-12 and of older drafts: which hold schemas, and which hold data.

All code that walks through a schema uses these names, so that it agrees. The meta-schemas are the authority, and a test
compares. A keyword that is not listed is an annotation, which holds no schema (2020-12, core §6.5).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway import jsonrpc

# One schema, or a list of them. Those "in place" apply to the same value as the schema that has them.
IN_PLACE: Final = ("not", "if", "then", "else")
IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
OF_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
OF_ITEMS: Final = ("items", "contains", "unevaluatedItems")
ONE: Final = frozenset((*IN_PLACE, *OF_MEMBERS, *OF_ITEMS, "contentSchema"))
LISTS: Final = frozenset((*IN_PLACE_LISTS, "prefixItems"))

# Schemas by name. A name is not a keyword, even where it is spelled like one.
DEFINITIONS: Final = frozenset(("$defs", "definitions"))
MAPS: Final = DEFINITIONS | {"properties", "patternProperties", "dependentSchemas"}

DATA: Final = frozenset(("enum", "const", "default", "examples", "example"))
"""Keywords for any JSON, which holds no schema. ``example`` is OpenAPI's."""
LITERAL: Final = DATA | {
    "$schema", "$id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$vocabulary", "type", "format", "pattern",
    "required", "dependentRequired", "contentEncoding", "contentMediaType",
}  # fmt: skip
"""Keywords for data, and for texts that must not be changed: names, types, identifiers, expressions."""
ANNOTATIONS: Final = DEFINITIONS | (DATA - {"enum", "const"}) | {
    "title", "description", "$comment", "deprecated", "readOnly", "writeOnly"
}  # fmt: skip
"""Keywords that do not decide which values are valid (2020-12, validation §9)."""
KEYWORDS: Final = ONE | LISTS | MAPS | LITERAL | ANNOTATIONS | {
    "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "maxItems",
    "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties",
}  # fmt: skip
OLDER: Final = frozenset(("id", "extends", "disallow", "divisibleBy", "dependencies", "additionalItems",
                          "$recursiveRef", "$recursiveAnchor"))  # fmt: skip
"""Keywords that 2020-12 no longer has. :mod:`gateway.schema.drafts` rewrites them."""


def in_place(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the subschemas that apply to the same value. Targets of references and boolean schemas are left out."""
    contents = [[schema.get(keyword)] for keyword in IN_PLACE]
    contents += [schema[keyword] for keyword in IN_PLACE_LISTS if isinstance(schema.get(keyword), list)]
    if isinstance(schema.get("dependentSchemas"), Mapping):
        contents.append(list(schema["dependentSchemas"].values()))
    yield from (part for content in contents for part in content if isinstance(part, Mapping))


def with_schemas(keyword: str, content: Any, change: Callable[[Any], Any]) -> Any:
    """Return a keyword's content with each schema in it changed. An object under an unknown keyword counts as a schema,
    so that nothing can hide there."""
    if keyword in LITERAL:
        return content
    if isinstance(content, list):
        return [with_schemas("", item, change) for item in content]
    if not isinstance(content, Mapping):
        return content
    return {name: change(child) for name, child in content.items()} if keyword in MAPS else change(content)


def all_schemas(schema: Any) -> list[Mapping[str, Any]]:
    """Return a schema and all that are in it, as :func:`with_schemas` finds them; boolean ones are left out."""
    found: list[Mapping[str, Any]] = []

    def visit(part: Any) -> None:
        if isinstance(part, Mapping):
            found.append(part)
            for keyword, content in part.items():
                with_schemas(keyword, content, visit)

    visit(schema)
    return found


_EVALUATES: Final = ("unevaluatedProperties",)
_INVERTS: Final = ("not", "if", "oneOf", "contains")
"""Keywords under which a schema that accepts more makes the whole accept less."""


def without_booleans(schema: Any, *, of_results: bool = False) -> Any:
    """Return a schema without ``additionalProperties: false``, for which some LLM APIs refuse a whole list of tools,
    and with an object in place of each boolean, on which google-genai fails; at any depth. A schema that names its
    dialect stays as it is: its author wrote it for clients that know JSON Schema. Clients check results, so their
    schema never accepts less."""
    keywords = (*_EVALUATES, *(_INVERTS if of_results else ()))
    raw = jsonrpc.encode(schema)
    return _without_booleans(schema, any(f'"{keyword}":'.encode() in raw for keyword in keywords))


def _without_booleans(schema: Any, exact: bool) -> Any:
    """Return the schema, with each ``additionalProperties`` where it must be ``exact``."""
    if not isinstance(schema, Mapping) or "$schema" in schema:
        return schema
    kept = dict(schema)
    if not exact and isinstance(kept.get("additionalProperties"), bool):
        del kept["additionalProperties"]
    return {keyword: _content_without_booleans(keyword, content, exact) for keyword, content in kept.items()}


def _content_without_booleans(keyword: str, content: Any, exact: bool) -> Any:
    if keyword in LISTS and isinstance(content, list):
        return [_content_without_booleans("not", item, exact) for item in content]
    if keyword in MAPS and isinstance(content, Mapping):
        return {name: _content_without_booleans("not", child, exact) for name, child in content.items()}
    if keyword in ONE and isinstance(content, bool):
        return {} if content else {"not": {}}
    return with_schemas(keyword, content, lambda part: _without_booleans(part, exact))
