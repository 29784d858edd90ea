"""Rewrite keywords of older drafts, and frequent mistakes in listings, as JSON Schema 2020-12.

Only what has one meaning is rewritten, by https://json-schema.org/specification#migrating-from-older-drafts. A schema
without ``$schema``, or with an unknown one, may use the keywords of any draft; a keyword whose meaning changed is
recognized by its form. The mistakes are PHP's ``[]`` for an empty map and ``{"0": …, "2": …}`` for a list with gaps,
null for a keyword that is not set, OpenAPI's ``nullable``, Kodi's ``enums``, and types of programming languages.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from gateway.model.schema_keywords import DATA, KEYWORDS, OLDER

Keywords: TypeAlias = dict[str, Any]

TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_ALIASES: Final = {
    "int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean", "str": "string",
    "list": "array", "dict": "object", "map": "object", "nil": "null",
}  # fmt: skip
_DIALECT: Final = re.compile(r"https?://json-schema\.org/draft(?:-0([3467])|/(2019|2020)-\d\d)/schema#?")
_LAST_WITHOUT_SIBLINGS: Final = 7
_BESIDE_REF: Final = frozenset(("$ref", "title", "description", "default", "deprecated", "readOnly", "writeOnly"))
_LOST: Final = frozenset(("examples", "example", "$vocabulary", "$recursiveAnchor", "$dynamicAnchor"))
_SPELLINGS: Final = {"enums", "divisibleby", "nullable"}
_NULL_IS_ABSENT: Final = (KEYWORDS | OLDER | _SPELLINGS) - DATA | {"enum"}
"""Keywords for which null means the same as their absence."""


def draft_of(schema: Mapping[str, Any], inherited: int | None = None) -> int | None:
    """Return 3, 4, 6, 7, 2019 or 2020 by the schema's ``$schema``, None where it is unknown."""
    dialect = schema.get("$schema")
    if not isinstance(dialect, str):
        return inherited
    match = _DIALECT.fullmatch(dialect)
    return int(match[1] or match[2]) if match else None


def upgrade_keywords(schema: Mapping[str, Any], draft: int | None) -> Keywords:
    """Return one schema object with the keywords of 2020-12, except ``extends``, which becomes a list of schemas.
    Subschemas, identifiers and definitions stay as they are."""
    keywords = {
        keyword: content
        for keyword, content in schema.items()
        if keyword not in _LOST and (content is not None or keyword not in _NULL_IS_ABSENT)
    }
    if not keywords.keys().isdisjoint(_RULES):
        for keyword, rule in _RULES.items():
            if keyword in keywords:
                rule(keywords, draft)
    return keywords


def _is_old(draft: int | None) -> bool:
    return draft is None or draft == 3


def add_keyword(keywords: Keywords, keyword: str, content: Any) -> None:
    """Set a keyword, or require it in addition to the one that is already there."""
    if keyword in keywords:
        others = keywords.get("allOf")
        keywords["allOf"] = [*(others if isinstance(others, list) else []), {keyword: content}]
    else:
        keywords[keyword] = content


def _ref(keywords: Keywords, draft: int | None) -> None:
    if draft is not None and draft <= _LAST_WITHOUT_SIBLINGS and isinstance(keywords["$ref"], str):
        for keyword in keywords.keys() - _BESIDE_REF:
            del keywords[keyword]


def _type(keywords: Keywords, draft: int | None) -> None:
    kind = _as_list(keywords["type"])
    if isinstance(kind, str) and kind in TYPES:
        return
    del keywords["type"]
    kinds = [_normal_type_name(item) for item in kind] if isinstance(kind, list) else [_normal_type_name(kind)]
    if "any" in kinds or kinds == []:
        return  # allows every value
    if all(isinstance(item, str) for item in kinds):
        kinds = list(dict.fromkeys(kinds))
    if any(isinstance(item, Mapping) for item in kinds):
        add_keyword(keywords, "anyOf", [item if isinstance(item, Mapping) else {"type": item} for item in kinds])
    else:
        keywords["type"] = kinds if isinstance(kind, list) else kinds[0]


def _normal_type_name(kind: Any) -> Any:
    """Return the JSON Schema name of a type, or the name as it is where its meaning is not certain."""
    if not isinstance(kind, str) or kind in TYPES:
        return kind
    lower = kind.lower()
    return lower if lower in TYPES or lower == "any" else _ALIASES.get(lower, kind)


def _nullable(keywords: Keywords, draft: int | None) -> None:
    if keywords.pop("nullable") is not True or "type" not in keywords:
        return
    kind = keywords["type"]
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" not in kinds:
        keywords["type"] = [*kinds, "null"]
    enum = keywords.get("enum")
    if isinstance(enum, list) and None not in enum:
        keywords["enum"] = [*enum, None]


def _disallow(keywords: Keywords, draft: int | None) -> None:
    if _is_old(draft):
        add_keyword(keywords, "not", {"type": keywords.pop("disallow")})


def _renamed(old: str, new: str, kind: type[Any], keywords: Keywords, draft: int | None) -> None:
    if _is_old(draft) and isinstance(keywords[old], kind):
        keywords.setdefault(new, keywords.pop(old))


def _extends(keywords: Keywords, draft: int | None) -> None:
    if not _is_old(draft):
        return
    given = keywords["extends"]
    bases = given if isinstance(given, list) else [given]
    keywords["extends"] = [{"$ref": base} if isinstance(base, str) else base for base in bases]
    if keywords.get("additionalProperties") is False:
        # The author refuses properties that neither the bases nor this schema name, so the bases have to count.
        keywords["unevaluatedProperties"] = keywords.pop("additionalProperties")


def _exclusive(exclusive: str, inclusive: str, keywords: Keywords, draft: int | None) -> None:
    if isinstance(keywords[exclusive], bool) and keywords.pop(exclusive) and inclusive in keywords:
        keywords[exclusive] = keywords.pop(inclusive)


def _properties(keywords: Keywords, draft: int | None) -> None:
    properties = keywords["properties"]
    if not isinstance(properties, Mapping):
        return
    wanted = [name for name, child in properties.items() if says_required(child)]
    if wanted:
        required = _as_list(keywords.get("required"))
        keywords["required"] = [*(required if isinstance(required, list) else []), *wanted]


def says_required(schema: Any) -> bool:
    """Return whether a property's or parameter's own schema says, as in draft 3, that it must be given."""
    return isinstance(schema, Mapping) and schema.get("required") is True


def _required(keywords: Keywords, draft: int | None) -> None:
    required = _as_list(keywords["required"])
    if isinstance(required, bool):
        del keywords["required"]  # draft 3: _properties of the parent has read it
    elif isinstance(required, list) and all(isinstance(name, str) for name in required):
        keywords["required"] = list(dict.fromkeys(required))


def _dependencies(keywords: Keywords, draft: int | None) -> None:
    dependencies = keywords["dependencies"]
    if not isinstance(dependencies, Mapping):
        if dependencies == []:
            del keywords["dependencies"]
        return
    del keywords["dependencies"]
    names: Keywords = {}
    schemas: Keywords = {}
    for name, content in dependencies.items():
        if isinstance(content, str):
            names[name] = [content]
        elif isinstance(content, list) and (content or draft):  # without a draft, [] is PHP's empty schema
            names[name] = content
        else:
            schemas[name] = content
    for keyword, found in (("dependentRequired", names), ("dependentSchemas", schemas)):
        given = keywords.get(keyword, {})
        if found and isinstance(given, Mapping):
            keywords[keyword] = {**found, **given}


def _items(keywords: Keywords, draft: int | None) -> None:
    items = keywords["items"]
    if isinstance(items, list):
        del keywords["items"]
        if items:
            add_keyword(keywords, "prefixItems", items)
        if "additionalItems" in keywords or not items:
            keywords["items"] = keywords.get("additionalItems", {})


def _list_of(keyword: str, keywords: Keywords, draft: int | None) -> None:
    content = keywords[keyword] = _as_list(keywords[keyword])
    if content == []:
        del keywords[keyword]


def _enum(keywords: Keywords, draft: int | None) -> None:
    keywords["enum"] = _as_list(keywords["enum"])


def _as_list(content: Any) -> Any:
    """Return a map from numbers as the list that it is: PHP writes a list with gaps so."""
    if isinstance(content, Mapping) and content and all(str(key).isdecimal() for key in content):
        return list(content.values())
    return content


def _default(keywords: Keywords, draft: int | None) -> None:
    if keywords["default"] == [] and keywords.get("type") == "object":
        keywords["default"] = {}


# They apply in this order: "items" reads "additionalItems", and "$ref" may remove all others.
_RULES: Final[dict[str, Callable[[Keywords, int | None], Any]]] = {
    "$ref": _ref,
    "allOf": partial(_list_of, "allOf"),
    "anyOf": partial(_list_of, "anyOf"),
    "oneOf": partial(_list_of, "oneOf"),
    "$recursiveRef": lambda keywords, _: add_keyword(keywords, "$ref", keywords.pop("$recursiveRef")),
    "type": _type,
    "enums": partial(_renamed, "enums", "enum", list),
    "enum": _enum,
    "nullable": _nullable,
    "disallow": _disallow,
    "divisibleBy": partial(_renamed, "divisibleBy", "multipleOf", object),
    "divisibleby": partial(_renamed, "divisibleby", "multipleOf", object),
    "extends": _extends,
    "exclusiveMinimum": partial(_exclusive, "exclusiveMinimum", "minimum"),
    "exclusiveMaximum": partial(_exclusive, "exclusiveMaximum", "maximum"),
    "properties": _properties,
    "required": _required,
    "dependencies": _dependencies,
    "items": _items,
    "additionalItems": lambda keywords, _: keywords.pop("additionalItems"),  # "items" has read it
    "default": _default,
}
