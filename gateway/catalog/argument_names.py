"""Rename arguments as LLM APIs accept them: ``[A-Za-z0-9_.-]{1,64}``, made once and kept in the tool's binding.

Some listings have headings as names (``Transaction hash``), others special characters (``$filter``). A schema with such
names is published with others, wherever it applies to the arguments object as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from gateway.catalog.names import NameRule, unique
from gateway.json_schema import IN_PLACE, IN_PLACE_LISTS, in_place, with_schemas

_RULE: Final = NameRule(r"A-Za-z0-9_.\-", 64, "argument")
_OPAQUE: Final = ("propertyNames", "patternProperties", "enum", "const", "$ref", "$dynamicRef")

Rename = Callable[[str], str]


def publish_names(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with accepted names, and the method's own name of each new one.

    A schema with rules for names, or with a reference that may name properties, stays as it is: renaming would change
    its meaning.
    """
    names = {name: name for name in _names(schema)}
    if all(map(_RULE.accepts, names)) or _is_opaque(schema):
        return schema, {}
    # Accepted names stay; the others are sorted, so that the order of the listing does not matter.
    published = unique(sorted(names, key=lambda name: (not _RULE.accepts(name), name)), names, _RULE)
    return _rename_properties(schema, lambda name: published.get(name, name)), {
        new: old for old, new in published.items() if new != old
    }


def _same_object_schemas(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield the schema, and the subschemas that apply to the same object."""
    yield schema
    for part in in_place(schema):
        yield from _same_object_schemas(part)


def _names(schema: Mapping[str, Any]) -> Iterable[str]:
    for part in _same_object_schemas(schema):
        yield from part.get("properties") or ()


def _is_opaque(schema: Mapping[str, Any]) -> bool:
    return any(keyword in part for part in _same_object_schemas(schema) for keyword in _OPAQUE)


def _rename_properties(schema: Any, rename: Rename) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    new = dict(schema)
    for keyword in (*IN_PLACE, *IN_PLACE_LISTS, "dependentSchemas"):
        if keyword in schema:
            new[keyword] = with_schemas(keyword, schema[keyword], lambda part: _rename_properties(part, rename))
    for keyword in ("properties", "dependentSchemas"):
        if isinstance(new.get(keyword), Mapping):
            new[keyword] = {rename(name): child for name, child in new[keyword].items()}
    if isinstance(schema.get("required"), list):
        new["required"] = [rename(name) if isinstance(name, str) else name for name in schema["required"]]
    if isinstance(schema.get("dependentRequired"), Mapping):
        new["dependentRequired"] = {
            rename(name): [rename(other) for other in others] for name, others in schema["dependentRequired"].items()
        }
    return new
