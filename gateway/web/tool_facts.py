"""Say for people what a tool takes and how it is called: the rows of its page."""

from collections.abc import Mapping
from typing import Any, Final

from gateway import jsonrpc
from gateway.model import Structure, Tool
from gateway.text import excerpt

_MOST_ROWS: Final = 200
_SIMPLE: Final = ("string", "integer", "number", "boolean")
_LIMITS: Final = (
    "enum", "const", "pattern", "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
)  # fmt: skip
_HOW: Final = {
    Structure.BY_NAME: "by name",
    Structure.BY_POSITION: "by position",
    Structure.BY_NAME_IN_LIST: "by name, in a list",
}


def rows_of_arguments(tool: Tool) -> list[dict[str, Any]]:
    """Return a row for each argument, and which field of a form takes it: ``json`` where no other does."""
    schema = tool.shown_input or tool.input_schema
    required, rows = schema.get("required", ()), []
    for name, described in list(schema.get("properties", {}).items())[:_MOST_ROWS]:
        one = described if isinstance(described, Mapping) else {}
        kinds = one.get("type", "any")
        texts = one.get("enum") if all(isinstance(value, str) for value in one.get("enum", [0])[:_MOST_ROWS]) else None
        kind = "enum" if texts else kinds if kinds in _SIMPLE else "json"
        default = _json(one["default"]) if "default" in one else ""
        text = excerpt(str(one.get("description", "")), 2000)
        rows.append({
            "name": name, "type": " or ".join(kinds) if isinstance(kinds, list) else kinds, "kind": kind, "text": text,
            "required": name in required, "default": default, "options": (texts or [])[:_MOST_ROWS],
            "limits": [f"{limit} {_json(one[limit])}" for limit in _LIMITS if limit in one],
        })  # fmt: skip
    return rows


def _json(value: Any) -> str:
    return excerpt(jsonrpc.encode(value).decode(), 300)


def ways_of_calling(tool: Tool) -> list[tuple[str, str]]:
    """Return how a tool is called, as pairs of what and how."""
    binding = tool.binding
    structure = _HOW.get(binding.structure, str(binding.structure)) + (
        "" if binding.structure_is_known else ", which is a guess"
    )
    rows = [("The service's method", binding.method), ("Its params", structure)]
    if binding.structure is Structure.BY_POSITION and binding.published_order:
        rows.append(("Their order", ", ".join(binding.published_order)))
    if binding.notification:
        rows.append(("Its answer", "none: it is a notification"))
    if tool.limit:
        rows.append(("At most", f"{tool.limit} for each caller"))
    if tool.confirm:
        rows.append(("Consent", "a person agrees to each call"))
    return rows
