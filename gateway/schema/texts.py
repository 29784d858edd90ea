"""Clean the texts of a listing, wherever they stand in a schema.

A model reads the whole schema, so hidden characters are removed from all of its texts (security S13). Texts that a
value has to equal stay: labels of an enum, constants, defaults, examples, patterns and names.
:mod:`gateway.schema.hidden_characters` decides on those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.json_schema import LITERAL, MAPS
from gateway.model import ServiceInfo
from gateway.text import excerpt, printable

MAX_DESCRIPTION: Final = 4096
MAX_TITLE: Final = 256
_MAX_VERSION: Final = 64
_WEBSITE: Final = re.compile(r"(?i:https?)://[A-Za-z0-9\[][A-Za-z0-9._~:/?#\[\]!$&'()*+,;=%-]{0,2000}")
_LIMITS: Final = {"title": MAX_TITLE, "description": MAX_DESCRIPTION, "$comment": MAX_DESCRIPTION}


def clean_title(text: str) -> str:
    return trim_excerpt(text, MAX_TITLE)


def trim_excerpt(text: str, limit: int) -> str:
    """Return an excerpt of a text, without white space around it."""
    return excerpt(text.strip(), limit).strip()


def clean_service_info(info: ServiceInfo) -> ServiceInfo:
    """Return what a listing says of its service, cleaned. A website that is no http or https URL is removed, since
    clients make a link of it."""
    return ServiceInfo(
        clean_title(info.title),
        trim_excerpt(info.version, _MAX_VERSION),
        trim_excerpt(info.description, MAX_DESCRIPTION),
        info.website if _WEBSITE.fullmatch(info.website) else "",
    )


def clean_schema_texts(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with clean texts. Keywords and their order stay."""
    return {keyword: _clean_keyword(keyword, value) for keyword, value in schema.items()}


def clean_value_texts(value: Any) -> Any:
    """Return free-form data for ``_meta`` with clean texts, names of members included."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [clean_value_texts(item) for item in value]
    if isinstance(value, Mapping):
        return {
            printable(name) if isinstance(name, str) else name: clean_value_texts(child)
            for name, child in value.items()
        }
    return value


def _clean_keyword(keyword: str, value: Any) -> Any:
    if isinstance(value, str):
        if keyword in LITERAL or (value.isascii() and value.isprintable() and len(value) <= MAX_TITLE):
            return value
        return excerpt(value, _LIMITS[keyword]) if keyword in _LIMITS else printable(value)
    if keyword in LITERAL:
        return value
    if isinstance(value, Mapping):
        if keyword in MAPS:
            return {
                name: clean_schema_texts(child) if isinstance(child, Mapping) else child
                for name, child in value.items()
            }
        return clean_schema_texts(value)
    if isinstance(value, list):
        return [_clean_keyword("", item) for item in value]
    return value
