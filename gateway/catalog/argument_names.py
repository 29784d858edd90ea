"""Names of arguments that LLM APIs take: ``[A-Za-z0-9_.-]{1,64}``, made once and kept in the tool's binding.

Listings have headings for names (``Transaction hash``) and marks of their own (``$filter``). A schema that has such
names is published with others, wherever it applies to the arguments object as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from gateway.catalog.names import Rule, unique
from gateway.json_schema import IN_PLACE, IN_PLACE_LISTS, in_place, with_schemas

_RULE: Final = Rule(r"A-Za-z0-9_.\-", 64, "argument")
_OPAQUE: Final = ("propertyNames", "patternProperties", "enum", "const", "$ref", "$dynamicRef")

Rename = Callable[[str], str]


def published(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The schema with names that suit, and what each new one stands for.

    A schema that judges names by themselves, or hides them behind a reference, stays as it is: its meaning would
    change.
    """
    names = {name: name for name in _names(schema)}
    if all(map(_RULE.suits, names)) or _is_opaque(schema):
        return schema, {}
    # Who suits keeps the name; the others come in the order of their raw names, whatever their order here.
    shown = unique(sorted(names, key=lambda name: (not _RULE.suits(name), name)), names, _RULE)
    return _renamed(schema, lambda name: shown.get(name, name)), {new: old for old, new in shown.items() if new != old}


def _parts(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The schema, and those in it that apply to the same object."""
    yield schema
    for part in in_place(schema):
        yield from _parts(part)


def _names(schema: Mapping[str, Any]) -> Iterable[str]:
    for part in _parts(schema):
        yield from part.get("properties") or ()


def _is_opaque(schema: Mapping[str, Any]) -> bool:
    return any(keyword in part for part in _parts(schema) for keyword in _OPAQUE)


def _renamed(schema: Any, rename: Rename) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    new = dict(schema)
    for keyword in (*IN_PLACE, *IN_PLACE_LISTS, "dependentSchemas"):
        if keyword in schema:
            new[keyword] = with_schemas(keyword, schema[keyword], lambda part: _renamed(part, rename))
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
