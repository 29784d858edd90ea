"""What PHP's schema validator (justinrainbow/json-schema) says about a value, in its own words.

Only the keywords that the site's parameters use.
"""

from typing import Any

from drupal_site import php

_ARTICLES = {"integer": "an", "array": "an", "object": "an"}


def _fits(value: Any, kind: str) -> bool:
    if kind in {"object", "array"}:
        # json_decode() made arrays of both, so each passes for the other.
        return isinstance(value, dict | list)
    kinds: dict[str, type] = {"integer": int, "boolean": bool, "string": str}
    return type(value) is kinds[kind]


def faults(value: Any, schema: dict[str, Any], pointer: str = "") -> list[dict[str, Any]]:
    """One entry per fault; none when the value conforms."""
    kind = schema["type"]
    if not _fits(value, kind):
        article = _ARTICLES.get(kind, "a")
        return [fault(pointer, f"{php.type_name(value)} value found, but {article} {kind} is required", "type")]
    if "minimum" in schema and value < schema["minimum"]:
        return [fault(pointer, f"Must have a minimum value of {schema['minimum']}", "minimum")]
    if not isinstance(value, dict):
        return []
    members = schema.get("properties", {}).items()
    return [found for name, sub in members if name in value for found in faults(value[name], sub, f"{pointer}/{name}")]


def fault(pointer: str, message: str, constraint: str) -> dict[str, Any]:
    """`property` is the pointer in PHP's notation."""
    name = pointer.lstrip("/").replace("/", ".")
    return {"property": name, "pointer": pointer, "message": message, "constraint": constraint, "context": 1}


def complaint(adaptor: str, found: list[dict[str, Any]]) -> str:
    """The sentence that reaches the caller, class name and all."""
    return f"Adaptor {adaptor} received invalid input data: {php.encode(found, hex_quotes=False)}."
