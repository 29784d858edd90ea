"""Lists that services made up: names, or entries with a name, at ``GET {base}/jsonrpc/methods`` as Drupal has it.

Taken bare or as ``methods``, a list, or an object by name. An entry may have a description, parameters (a list of
names or of entries, an object by name, or one JSON Schema of all), and a result; whatever it lacks stays open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gateway.listing.dialect import (
    About,
    Source,
    first_answer,
    get,
    list_of,
    listing_of,
    object_of,
    placed,
    text_of,
)
from gateway.listing.docstrings import documented
from gateway.listing.drupal import PATH
from gateway.listing.typewords import schema_of_word
from gateway.model import Listing, Method, Parameter, Schema, Structure

_PARAMETERS: Final = ("params", "parameters", "arguments", "args")
_RESULTS: Final = ("result", "returns", "return")
_BESIDE_TYPE: Final[tuple[str, ...]] = (
    "default", "enum", "const", "items", "properties", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
)  # fmt: skip


class Plain:
    name = "plain"
    about = About(
        of="home-grown lists of names, or of entries with a name",
        asked="`GET {base}/jsonrpc/methods`",
        recognized="a list, bare or as `methods`, of names or of entries with `name`; or `methods{}` by name",
        carries=("title", "description", "parameters", "types", "required", "result"),
        passed="by name",
        lost="What an entry calls otherwise: describe such a list with `dialect: custom`. Arguments that are not "
        "told are left open.",
    )

    async def fetch(self, source: Source) -> Listing:
        place = source.place or source.base + PATH
        return parse(await first_answer([get(source, place)], recognizes, "no list of names"))


def recognizes(document: Any) -> bool:
    return any(isinstance(name, str) and name for name, _ in _entries(document))


def all_named(document: Any) -> bool:
    """Tell whether it is a list of nothing but names and entries with one, as somebody wrote it down."""
    entries = document.get("methods") if isinstance(document, dict) else document
    return (
        isinstance(entries, list)
        and bool(entries)
        and all(name and isinstance(name, str) for name, _ in _entries(entries))
    )


def parse(document: Any) -> Listing:
    return listing_of(Plain.name, _entries(document), _method)


def _entries(document: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    methods = document.get("methods") if isinstance(document, dict) else document
    if isinstance(methods, dict):
        yield from ((name, entry) for name, entry in methods.items() if isinstance(entry, dict))
        return
    for entry in list_of(methods):
        yield (entry, {}) if isinstance(entry, str) else (object_of(entry).get("name"), object_of(entry))


def _method(name: str, entry: dict[str, Any]) -> Method:
    declared = next((entry[key] for key in _PARAMETERS if key in entry), None)
    result = schema_of_word(next((entry[key] for key in _RESULTS if key in entry), None))
    whole = declared if isinstance(declared, dict) and isinstance(declared.get("properties"), dict) else None
    parameters, structure = placed([] if whole else _parameters(declared), Structure.BY_NAME)
    return documented(
        Method(
            name,
            Plain.name,
            title=text_of(entry.get("title")),
            description=text_of(entry.get("description")) or text_of(entry.get("summary")),
            parameters=parameters if isinstance(declared, list | dict) else None,
            input_schema=whole,
            structure=structure,
            result=None if result is True else result,
        )
    )


def _parameters(declared: Any) -> list[Parameter]:
    if isinstance(declared, list):
        return [_parameter(text_of(object_of(item).get("name")), item) for item in declared]
    if isinstance(declared, dict):
        return [_parameter(name, item) for name, item in declared.items()]
    return []


def _parameter(name: str, item: Any) -> Parameter:
    """A name, or an entry; under its name also the word for its type."""
    if isinstance(item, str):
        return Parameter(name, schema_of_word(item)) if name else Parameter(item)
    entry = object_of(item)
    schema: Schema = schema_of_word(entry.get("schema", entry.get("type")))
    beside = {keyword: entry[keyword] for keyword in _BESIDE_TYPE if keyword in entry}
    if beside:
        schema = {**(schema if isinstance(schema, dict) else {}), **beside}
    required = entry.get("required") is True or entry.get("optional") is False
    return Parameter(name, schema, required, text_of(entry.get("description")))
