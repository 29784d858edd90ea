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
from gateway.schema.patterns import relaxed
from gateway.schema.texts import shown_value
from gateway.text import hides

# An escape other than of a quote, a newline or a tab, or what is beyond ASCII: how hidden characters are written.
_SUSPECT: Final = re.compile(rb"\\[^\"nt]|[^\x20-\x7e]")
_CLEANED: Final = ("default", "format")


def visible(schema: dict[str, Any], *, results: bool = False) -> dict[str, Any]:
    """The schema as it can be published; itself where nothing in it hides.

    Of ``results``, clients check more than models read: what is left out of their schema only ever makes it accept
    more.
    """
    if _SUSPECT.search(jsonrpc.encode(schema)) is None or not _hides(schema):
        return schema

    def is_left_out(keyword: str, content: Any) -> bool:
        if keyword == "enum":
            return not content or (results and _hides(content))
        return keyword == "const" and _hides(content)

    shown: dict[str, Any] = relaxed(_with_visible_values(schema, results), hides, is_left_out)
    return dict(_named_visibly(shown, results))


def _hides(value: Any) -> bool:
    """Tell whether any text or name within a value has hidden characters."""
    if isinstance(value, str):
        return hides(value)
    if isinstance(value, Mapping):
        return any(map(_hides, value)) or any(map(_hides, value.values()))
    return isinstance(value, list) and any(map(_hides, value))


def _with_visible_values(value: Any, results: bool) -> Any:
    if not isinstance(value, Mapping):
        return value
    changed: dict[str, Any] = {}
    for keyword, content in value.items():
        if keyword in _CLEANED and _hides(content):
            changed[keyword] = shown_value(content)
        elif keyword == "enum" and isinstance(content, list) and not results:
            changed[keyword] = [item for item in content if not _hides(item)]
        else:
            changed[keyword] = with_schemas(keyword, content, lambda child: _with_visible_values(child, results))
    return changed


def _named_visibly(value: Any, results: bool) -> Any:
    """Without names that hide something, wherever a schema has names, and without what is left of hiding texts: those
    of keywords that nobody knows."""
    if isinstance(value, list):
        return [_named_visibly(item, results) for item in value if not _is_hiding_text(item)]
    if not isinstance(value, Mapping):
        return value
    changed = {
        name: _named_visibly(child, results)
        for name, child in value.items()
        if not hides(name) and not _is_hiding_text(child)
    }
    properties = value.get("properties")
    if results and isinstance(properties, Mapping) and any(map(hides, properties)):
        changed.pop("additionalProperties", None)
        changed.pop("unevaluatedProperties", None)
    return changed


def _is_hiding_text(value: Any) -> bool:
    return isinstance(value, str) and hides(value)
