"""Schemas without values that hide something: what a model reads is what people see (security S13).

Descriptions are cleaned, but a value that callers have to send as it is cannot be. One with zero-width, bidirectional
or control characters, or with tags, is left out of what is published, and stays in what arguments and results are
checked against. A ``default`` and a ``format`` lose such characters.
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

# An escape other than of a quote, a newline or a tab, or what is beyond ASCII: how hidden characters are written.
_SUSPECT: Final = re.compile(rb"\\[^\"nt]|[^\x20-\x7e]")
_CLEANED: Final = ("default", "format")


def remove_hidden_characters(schema: dict[str, Any], *, results: bool = False) -> dict[str, Any]:
    """The schema as it can be published; itself where nothing in it hides.

    Of ``results``, clients check more than models read: what is left out of their schema only ever makes it accept
    more.
    """
    if _SUSPECT.search(jsonrpc.encode(schema)) is None or not _has_hidden_characters(schema):
        return schema

    def is_left_out(keyword: str, content: Any) -> bool:
        if keyword == "enum":
            return not content or (results and _has_hidden_characters(content))
        return keyword == "const" and _has_hidden_characters(content)

    shown: dict[str, Any] = relax_schema(_remove_hidden_values(schema, results), has_hidden_characters, is_left_out)
    return dict(_remove_hidden_names(shown, results))


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
    """Without names that hide something, wherever a schema has names, and without what is left of hiding texts: those
    of keywords that nobody knows."""
    if isinstance(value, list):
        return [_remove_hidden_names(item, results) for item in value if not _is_hiding_text(item)]
    if not isinstance(value, Mapping):
        return value
    changed = {
        name: _remove_hidden_names(child, results)
        for name, child in value.items()
        if not has_hidden_characters(name) and not _is_hiding_text(child)
    }
    properties = value.get("properties")
    if results and isinstance(properties, Mapping) and any(map(has_hidden_characters, properties)):
        changed.pop("additionalProperties", None)
        changed.pop("unevaluatedProperties", None)
    return changed


def _is_hiding_text(value: Any) -> bool:
    return isinstance(value, str) and has_hidden_characters(value)
