"""Names of arguments that LLM APIs take: ``[A-Za-z0-9_.-]{1,64}``, made once and kept in the tool's binding.

Listings have headings for names (``Transaction hash``) and marks of their own (``$filter``). A schema that has such
names is published with others, wherever it applies to the arguments object as a whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from gateway.json_schema import Holds, Target, holding

MAX_LENGTH: Final = 64
_SUITS: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_LENGTH}}}")
_UNSUITED_RUN: Final = re.compile(r"[^A-Za-z0-9_.-]+")
# What applies to the same object as the schema that it stands in.
_ONE: Final = holding(Holds.SCHEMA, Target.SELF)
_LISTS: Final = holding(Holds.LIST, Target.SELF)
_OPAQUE: Final = ("propertyNames", "patternProperties", "enum", "const", "$ref", "$dynamicRef")

Rename = Callable[[str], str]


def published(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The schema with names that suit, and what each new one stands for.

    A schema that judges names by themselves, or hides them behind a reference, stays as it is: its meaning would
    change.
    """
    names = list(_names(schema))
    if all(map(_suits, names)) or _is_opaque(schema):
        return schema, {}
    shown = _assigned(dict.fromkeys(names))
    return _renamed(schema, lambda name: shown.get(name, name)), {new: old for old, new in shown.items() if new != old}


def _suits(name: str) -> bool:
    return _SUITS.fullmatch(name) is not None


def _assigned(names: Iterable[str]) -> dict[str, str]:
    """Who suits keeps the name; the others come in the order of their raw names, whatever their order here."""
    shown: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names, key=lambda name: (not _suits(name), name)):
        new, salt = name if _suits(name) else _made_of(name), name
        while new in taken:
            new, salt = _suffixed(new, salt), f"{salt}+"
        shown[name] = new
        taken.add(new)
    return shown


def _made_of(name: str) -> str:
    new = _UNSUITED_RUN.sub("_", name).strip("_")
    if not new:
        return _suffixed("argument", name)
    return new if len(new) <= MAX_LENGTH else _suffixed(new, name)


def _suffixed(new: str, name: str) -> str:
    suffix = "_" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return new[: MAX_LENGTH - len(suffix)] + suffix


def _parts(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The schema, and those in it that apply to the same object."""
    yield schema
    inner = [schema.get(keyword) for keyword in _ONE]
    for keyword in _LISTS:
        inner += schema.get(keyword) or []
    inner += (schema.get("dependentSchemas") or {}).values()
    for part in inner:
        if isinstance(part, Mapping):
            yield from _parts(part)


def _names(schema: Mapping[str, Any]) -> Iterable[str]:
    for part in _parts(schema):
        yield from part.get("properties") or ()


def _is_opaque(schema: Mapping[str, Any]) -> bool:
    return any(keyword in part for part in _parts(schema) for keyword in _OPAQUE)


def _renamed(schema: dict[str, Any], rename: Rename) -> dict[str, Any]:
    new = dict(schema)
    for keyword in ("properties", "dependentSchemas"):
        if isinstance(schema.get(keyword), Mapping):
            new[keyword] = {rename(name): child for name, child in schema[keyword].items()}
    if isinstance(schema.get("required"), list):
        new["required"] = [rename(name) if isinstance(name, str) else name for name in schema["required"]]
    if isinstance(schema.get("dependentRequired"), Mapping):
        new["dependentRequired"] = {
            rename(name): [rename(other) for other in others] for name, others in schema["dependentRequired"].items()
        }
    if isinstance(new.get("dependentSchemas"), Mapping):
        new["dependentSchemas"] = {name: _part(part, rename) for name, part in new["dependentSchemas"].items()}
    new |= {keyword: _part(schema[keyword], rename) for keyword in _ONE if keyword in schema}
    new |= {keyword: [_part(part, rename) for part in schema[keyword]] for keyword in _LISTS if keyword in schema}
    return new


def _part(part: Any, rename: Rename) -> Any:
    return _renamed(part, rename) if isinstance(part, dict) else part
