"""Remove values with hidden characters from published schemas: a model reads what people see (security S13).

Descriptions are cleaned. A value that callers must send unchanged cannot be cleaned: one with zero-width,
bidirectional, control or tag characters is not published, but arguments and results are still checked with it. A
``default`` and a ``format`` lose such characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway import jsonrpc
from gateway.json_schema import with_schemas
from gateway.schema.patterns import relax_schema
from gateway.schema.texts import clean_value_texts
from gateway.text import has_hidden_characters

# JSON writes hidden characters as escapes or beyond ASCII. Escapes of a quote, a newline and a tab are harmless.
_SUSPECT: Final = re.compile(rb"\\[^\"nt]|[^\x20-\x7e]")
_CLEANED: Final = ("default", "format")


def remove_hidden_characters(schema: dict[str, Any], *, results: bool = False) -> dict[str, Any]:
    """Return the schema to publish; ``schema`` itself where it has no hidden characters.

    Clients check results against the schema of ``results``, so removal may only make it accept more.
    """
    if _SUSPECT.search(jsonrpc.encode(schema)) is None or not _has_hidden_characters(schema):
        return schema

    def is_dropped(keyword: str, content: Any) -> bool:
        if keyword == "enum":
            return not content or (results and _has_hidden_characters(content))
        return keyword == "const" and _has_hidden_characters(content)

    published: dict[str, Any] = relax_schema(_remove_hidden_values(schema, results), has_hidden_characters, is_dropped)
    return dict(_remove_hidden_names(published, results))


def _has_hidden_characters(value: Any) -> bool:
    """Tell whether any text or name within a value has hidden characters."""
    if isinstance(value, str):
        return has_hidden_characters(value)
    if isinstance(value, Mapping):
        return any(map(_has_hidden_characters, value)) or any(map(_has_hidden_characters, value.values()))
    return isinstance(value, list) and any(map(_has_hidden_characters, value))


def _remove_hidden_values(value: Any, results: bool) -> Any:
    if not isinstance(value, Mapping):
        return value
    changed: dict[str, Any] = {}
    for keyword, content in value.items():
        if keyword in _CLEANED and _has_hidden_characters(content):
            changed[keyword] = clean_value_texts(content)
        elif keyword == "enum" and isinstance(content, list) and not results:
            changed[keyword] = [item for item in content if not _has_hidden_characters(item)]
        else:
            changed[keyword] = with_schemas(keyword, content, lambda child: _remove_hidden_values(child, results))
    return changed


def _remove_hidden_names(value: Any, results: bool) -> Any:
    """Return a value without hidden names, and without hidden texts that remain: those of unknown keywords."""
    if isinstance(value, list):
        return [_remove_hidden_names(item, results) for item in value if not _is_hidden_text(item)]
    if not isinstance(value, Mapping):
        return value
    changed = {
        name: _remove_hidden_names(child, results)
        for name, child in value.items()
        if not has_hidden_characters(name) and not _is_hidden_text(child)
    }
    properties = value.get("properties")
    # A property that is no longer named must not be refused as an additional one.
    if results and isinstance(properties, Mapping) and any(map(has_hidden_characters, properties)):
        changed.pop("additionalProperties", None)
        changed.pop("unevaluatedProperties", None)
    return changed


def _is_hidden_text(value: Any) -> bool:
    return isinstance(value, str) and has_hidden_characters(value)
