"""Clean the texts of a listing, wherever they stand in a schema.

A model reads the whole schema, so hidden characters are removed from all of its texts (security S13). Texts that a
value has to equal (labels of an enum, constants, examples, patterns, names) must be sent unchanged, so one with
zero-width, bidirectional, control or tag characters is not published, but values are still checked with it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway import jsonrpc
from gateway.model import ServiceInfo
from gateway.model.schema_keywords import LITERAL, all_schemas, with_schemas
from gateway.schema.bundling import UnsoundSchema
from gateway.schema.patterns import relax_schema
from gateway.schema.validation import ValidatorCache
from gateway.text import excerpt, has_hidden_characters, printable

MAX_DESCRIPTION: Final = 4096
MAX_TITLE: Final = 256
_MAX_VERSION: Final = 64
_WEBSITE: Final = re.compile(r"(?i:https?)://[A-Za-z0-9\[][A-Za-z0-9._~:/?#\[\]!$&'()*+,;=%-]{0,2000}")
_LIMITS: Final = {"title": MAX_TITLE, "description": MAX_DESCRIPTION, "$comment": MAX_DESCRIPTION}
# JSON writes hidden characters as escapes or beyond ASCII. Escapes of a quote, a newline and a tab are harmless.
_SUSPECT: Final = re.compile(rb"\\[^\"nt]|[^\x20-\x7e]")
_CLEANED: Final = ("default", "format")


def trim_excerpt(text: str, limit: int) -> str:
    """Return an excerpt of a text, without white space around it."""
    return excerpt(text.strip(), limit).strip()


def clean_service_info(info: ServiceInfo) -> ServiceInfo:
    """Return what a listing says of its service, cleaned. A website that is no http or https URL is removed, since
    clients make a link of it."""
    return ServiceInfo(
        trim_excerpt(info.title, MAX_TITLE),
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
        names = (printable(name) if isinstance(name, str) else name for name in value)
        return dict(zip(names, map(clean_value_texts, value.values()), strict=True))
    return value


def _clean_keyword(keyword: str, value: Any) -> Any:
    if isinstance(value, str):
        if keyword in LITERAL or (value.isascii() and value.isprintable() and len(value) <= MAX_TITLE):
            return value
        return excerpt(value, _LIMITS[keyword]) if keyword in _LIMITS else printable(value)
    if isinstance(value, list) and keyword not in LITERAL:
        return [_clean_keyword("", item) for item in value]  # texts, too
    return with_schemas(keyword, value, lambda part: clean_schema_texts(part) if isinstance(part, Mapping) else part)


def remove_hidden_characters(schema: dict[str, Any], *, results: bool = False) -> dict[str, Any]:
    """Return the schema to publish; ``schema`` itself where it has no hidden characters. Clients check results against
    the schema of ``results``, so removal may only make it accept more."""
    if _SUSPECT.search(jsonrpc.encode(schema)) is None or not _has_hidden_characters(schema):
        return schema

    def is_dropped(keyword: str, content: Any) -> bool:
        if keyword == "enum":
            return not content or (results and _has_hidden_characters(content))
        return keyword == "const" and _has_hidden_characters(content)

    published: dict[str, Any] = relax_schema(_remove_hidden_values(schema, results), has_hidden_characters, is_dropped)
    return dict(_remove_hidden_names(published, results))


def _has_hidden_characters(value: Any) -> bool:
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


def without_refused_defaults(schema: Mapping[str, Any], validators: ValidatorCache) -> Mapping[str, Any]:
    """Return a self-contained schema without the defaults that their own schemas refuse, at any depth; the same object
    where there are none."""
    owners = [part for part in all_schemas(schema) if "default" in part]
    if not owners:
        return schema
    try:
        # All of them in one schema, which is compiled once: a stranger may list many.
        validator = validators.compile({"prefixItems": owners, "$defs": schema.get("$defs", {})})
        refused = validator.faulty_items([owner["default"] for owner in owners])
    except UnsoundSchema:  # together they cost too much to be checked
        refused = set(range(len(owners)))
    ids = {id(owners[place]) for place in refused}
    changed: Mapping[str, Any] = _without_defaults(schema, ids) if ids else schema
    return changed


def _without_defaults(schema: Any, owners: set[int]) -> Any:
    """Return a schema without the defaults of the schemas in it with these ids."""
    if not isinstance(schema, Mapping):
        return schema
    return {
        keyword: with_schemas(keyword, content, lambda part: _without_defaults(part, owners))
        for keyword, content in schema.items()
        if not (keyword == "default" and id(schema) in owners)
    }
