"""The keywords of JSON Schema 2020-12 and of its older drafts: what each holds, and what its schemas apply to.

Whoever walks through a schema takes its keywords from here, so that all agree on what is a schema, what is a name that
only looks like a keyword, and what is data. The meta-schemas are the authority, and a test compares. ``example`` is
OpenAPI's. Keywords that stand in no table are annotations (2020-12, core §6.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final


class Holds(Enum):
    """What a keyword's content is."""

    SCHEMA = auto()
    LIST = auto()
    """A list of schemas."""
    MAP = auto()
    """Schemas by name. A name is no keyword, even where it is spelled like one."""
    DATA = auto()
    """Any JSON. Nothing in it is a schema."""
    WORDS = auto()
    """Names, types, identifiers and expressions, which mean something as they are."""
    TEXT = auto()
    """Words for people."""
    BOUND = auto()
    """A number, or yes or no."""


class Target(Enum):
    """What the schemas of a keyword apply to."""

    SELF = auto()
    """The same value."""
    MEMBER = auto()
    ITEM = auto()
    NOTHING = auto()
    """No part of the value by itself: definitions, and the decoded form of a text."""


_SCHEMAS: Final = {
    (Holds.LIST, Target.SELF): ("allOf", "anyOf", "oneOf"),
    (Holds.SCHEMA, Target.SELF): ("not", "if", "then", "else"),
    (Holds.MAP, Target.SELF): ("dependentSchemas",),
    (Holds.MAP, Target.MEMBER): ("properties", "patternProperties"),
    (Holds.SCHEMA, Target.MEMBER): ("additionalProperties", "unevaluatedProperties", "propertyNames"),
    (Holds.LIST, Target.ITEM): ("prefixItems",),
    (Holds.SCHEMA, Target.ITEM): ("items", "contains", "unevaluatedItems"),
    (Holds.SCHEMA, Target.NOTHING): ("contentSchema",),
    (Holds.MAP, Target.NOTHING): ("$defs", "definitions"),
}
_OTHERS: Final = {
    Holds.DATA: ("enum", "const", "default", "examples", "example"),
    Holds.WORDS: (
        "$schema", "$id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$vocabulary", "type", "format",
        "pattern", "required", "dependentRequired", "contentEncoding", "contentMediaType",
    ),
    Holds.TEXT: ("title", "description", "$comment"),
    Holds.BOUND: (
        "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
        "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties",
        "deprecated", "readOnly", "writeOnly",
    ),
}  # fmt: skip
OLDER: Final = frozenset(
    ("id", "extends", "disallow", "divisibleBy", "dependencies", "additionalItems", "$recursiveRef",
     "$recursiveAnchor")
)  # fmt: skip
"""Keywords that 2020-12 has no more; :mod:`gateway.catalog.drafts` says the same in its words."""


def holding(holds: Holds, *targets: Target) -> tuple[str, ...]:
    """Return the keywords that hold this and apply to one of the targets, or to whatever where none is given."""
    schemas = (
        keyword
        for (kind, target), keywords in _SCHEMAS.items()
        if kind is holds and (not targets or target in targets)
        for keyword in keywords
    )
    return (*schemas, *_OTHERS.get(holds, ()))


MAPS: Final = frozenset(holding(Holds.MAP))
DEFINITIONS: Final = frozenset(holding(Holds.MAP, Target.NOTHING))
DATA: Final = frozenset(holding(Holds.DATA))
LITERAL: Final = DATA | {*holding(Holds.WORDS)}
"""What a value has to equal, or what a validator or another schema goes by. No schema stands in it."""
KEYWORDS: Final = frozenset(keyword for holds in Holds for keyword in holding(holds))
ANNOTATIONS: Final = (DEFINITIONS | DATA | {*holding(Holds.TEXT), "deprecated", "readOnly", "writeOnly"}) - {
    "enum", "const"
}  # fmt: skip
"""What says nothing of which values are valid (2020-12, validation §9)."""


def with_schemas(keyword: str, content: Any, change: Callable[[Any], Any]) -> Any:
    """Return a keyword's content with each schema in it changed. What an unknown keyword holds counts as schemas, so
    that nothing hides there."""
    if keyword in LITERAL:
        return content
    if isinstance(content, list):
        return [with_schemas("", item, change) for item in content]
    if not isinstance(content, Mapping):
        return content
    return {name: change(child) for name, child in content.items()} if keyword in MAPS else change(content)
