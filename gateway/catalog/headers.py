"""Find arguments that clients mirror into HTTP headers: ``x-mcp-header`` (2026-07-28, SEP-2243).

Clients drop a tool whose annotation breaks the rules, so a bad annotation is removed and the tool stays. The rules:
the name is a non-empty RFC 9110 token, unique in the tool whatever its case; the schema is an integer's, a string's or
a boolean's; and ``properties`` alone lead to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.json_schema import with_schemas
from gateway.model import HeaderParameter

KEYWORD: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_KINDS: Final = ("integer", "string", "boolean")


def header_parameters(schema: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[HeaderParameter, ...]]:
    """Return the schema without bad annotations, and the header of each good one."""
    found: dict[str, HeaderParameter] = {}
    return _without_bad_headers(schema, (), found), tuple(found.values())


def _without_bad_headers(value: Any, path: tuple[str, ...] | None, found: dict[str, HeaderParameter]) -> Any:
    """Return the value without bad annotations. ``path`` is None below any keyword but ``properties``."""
    if not isinstance(value, Mapping):
        return value
    result: dict[str, Any] = {}
    for key, child in value.items():
        if key == "properties" and isinstance(child, Mapping):
            result[key] = {
                name: _without_bad_headers(schema, None if path is None else (*path, name), found)
                for name, schema in child.items()
            }
        elif key == KEYWORD:
            if path and _is_good(child, value, found):
                found[child.lower()] = HeaderParameter(PREFIX + child, path, str(value["type"]))
                result[key] = child
        else:
            result[key] = with_schemas(key, child, lambda schema: _without_bad_headers(schema, None, found))
    return result


def _is_good(name: Any, schema: Mapping[str, Any], found: Mapping[str, HeaderParameter]) -> bool:
    return (
        isinstance(name, str)
        and _TOKEN.fullmatch(name) is not None
        and name.lower() not in found
        and schema.get("type") in _KINDS
    )
