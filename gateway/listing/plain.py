"""Lists that services made up: names, or entries with a name, at ``GET {base}/jsonrpc/methods`` as Drupal has it, or as
the answer to a method that lists (Substrate's ``rpc_methods``, Electrum's ``help``).

Taken bare, or as ``methods``, ``commands`` and their like, a list, or an object by name; or as one text of names. An
entry may have a description, parameters (a list of names or of entries, an object by name, or one JSON Schema of all),
and a result; whatever it lacks stays open. What is but a name may take its params in either structure: the caller
chooses, with a list or an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gateway.listing.dialect import (
    About,
    ListingSource,
    call_question,
    first_answer,
    get_question,
    list_of,
    listing_of,
    name_parameters,
    object_of,
    text_of,
)
from gateway.listing.docstrings import fill_from_docstring
from gateway.listing.drupal import PATH
from gateway.listing.typewords import schema_of_word
from gateway.model import Listing, Method, Parameter, Schema, Structure

LISTS: Final = ("rpc_methods", "rpc.methods", "methods", "help", "commands")
"""Methods that answer with such a list, where there are any."""
_WITHIN: Final = ("methods", "commands", "functions", "procedures", "help")
_NAMED: Final = ("name", "method", "command")
_NAMES: Final = re.compile(r"[A-Za-z][\w.:/-]*+(?:\s++[A-Za-z][\w.:/-]*+)*+")
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
        asked="`GET {base}/jsonrpc/methods`; then `rpc_methods`, `rpc.methods`, `methods`, `help` and `commands`",
        recognized="a list, bare or as `methods`, `commands`, …, of names or of entries with `name`; or `methods{}` by "
        "name; of a call also a text of names, two at least",
        carries=("title", "description", "parameters", "types", "required", "result"),
        passed="by name; what is but a name as the caller likes",
        lost="What an entry calls otherwise: describe such a list with `dialect: custom`. Arguments that are not "
        "told are left open.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [
            get_question(source, source.listing_url or source.base + PATH),
            *(call_question(source, name) for name in LISTS),
        ]
        return parse_listing(await first_answer(questions, recognizes, "no list of names"))


def recognizes(document: Any) -> bool:
    return any(isinstance(name, str) and name for name, _ in _entries(document))


def all_named(document: Any) -> bool:
    """Tell whether it is a list of nothing but names and entries with one, as somebody wrote it down."""
    entries = _within(document)
    return (
        isinstance(entries, list)
        and bool(entries)
        and all(name and isinstance(name, str) for name, _ in _entries(entries))
    )


def parse_listing(document: Any) -> Listing:
    return listing_of(Plain.name, _entries(document), _method)


def _entries(document: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    methods = _within(document)
    if isinstance(methods, dict):
        yield from ((name, entry) for name, entry in methods.items() if isinstance(entry, dict))
        return
    if isinstance(methods, str):
        names = methods.split() if _NAMES.fullmatch(methods.strip()) else []
        methods = names if len(names) > 1 else []
    for entry in list_of(methods):
        yield (entry, {}) if isinstance(entry, str) else (_name(object_of(entry)), object_of(entry))


def _within(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return next((document[member] for member in _WITHIN if isinstance(document.get(member), list | dict)), None)


def _name(entry: dict[str, Any]) -> Any:
    """The name of an entry; a command may stand with its arguments behind it."""
    name = next((entry[member] for member in _NAMED if member in entry), None)
    return name.partition(" ")[0] if isinstance(name, str) and "name" not in entry else name


def _method(name: str, entry: dict[str, Any]) -> Method:
    declared = next((entry[key] for key in _PARAMETERS if key in entry), None)
    result = schema_of_word(next((entry[key] for key in _RESULTS if key in entry), None))
    whole = declared if isinstance(declared, dict) and isinstance(declared.get("properties"), dict) else None
    parameters, structure = name_parameters([] if whole else _parameters(declared), Structure.BY_NAME)
    return fill_from_docstring(
        Method(
            name,
            Plain.name,
            title=text_of(entry.get("title")),
            description=text_of(entry.get("description")) or text_of(entry.get("summary")),
            parameters=parameters if isinstance(declared, list | dict) else None,
            input_schema=whole,
            structure=Structure.UNKNOWN if declared is None else structure,
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
