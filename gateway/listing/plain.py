"""Read lists without a specification: names, or entries with a name.

Such are Substrate's ``rpc_methods``, Electrum's ``help`` and ``__listMethods`` of rpc-websockets. The list stands alone
or in a member such as ``methods``; it may be an object by name, or one text of names. Parameters are a list of names or
of entries, an object by name, or one JSON Schema. A method with only a name may accept either structure: the caller
chooses, with a list or an object.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_listing, get_question, listing_of
from gateway.listing.docstrings import fill_from_docstring
from gateway.listing.drupal import PATH
from gateway.listing.entries import list_of, object_of, schema_of_word, text_of
from gateway.model import Listing, Method, Parameter, Schema, Structure
from gateway.text import url_beside

LISTS: Final = ("rpc_methods", "rpc.methods", "methods", "help", "commands")
"""Methods that answer such a list, in the order of asking."""
_OVER_WEBSOCKET: Final = "__listMethods"
_LIST_MEMBERS: Final = ("methods", "commands", "functions", "procedures", "help")
_NAME_MEMBERS: Final = ("name", "method", "command")
_NAMES: Final = re.compile(r"[A-Za-z][\w.:/-]*+(?:\s++[A-Za-z][\w.:/-]*+)*+")
_PARAMETER_MEMBERS: Final = ("params", "parameters", "arguments", "args")
_RESULT_MEMBERS: Final = ("result", "returns", "return")
_SCHEMA_KEYWORDS: Final[tuple[str, ...]] = (
    "default", "enum", "const", "items", "properties", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
)  # fmt: skip


class Plain:
    name = "plain"
    info = DialectInfo(
        spoken_by="services with their own lists of names, or of entries with a name",
        requests="`GET {base}/jsonrpc/methods`; then `rpc_methods`, `rpc.methods`, `methods`, `help` and `commands`; "
        "over a WebSocket first `__listMethods`",
        recognized_by="a list of names or of entries with `name`, alone or in `methods`, `commands`, …; or `methods{}` "
        "by name; as the answer to a call also a text of at least two names",
        carries=("title", "description", "parameters", "types", "required", "result"),
        params="by name; as the caller chooses where a method has only a name",
        not_carried="Members of an entry with other names: describe such a list with `dialect: custom`. Arguments that "
        "the list does not have are left open.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [get_question(source, url_beside(source.url, PATH))]
        own = (_OVER_WEBSOCKET,) if source.url.startswith(("ws:", "wss:")) else ()
        questions += [call_question(source, name) for name in (*own, *LISTS)]
        return await first_listing(questions, recognizes, "no list of names", parse_listing)


def recognizes(document: Any) -> bool:
    return any(isinstance(name, str) and name for name, _ in _entries(document))


def all_named(document: Any) -> bool:
    """Return whether a document, as a person may write it, is a list of only names and entries with a name."""
    listed = _list_in(document)
    names = [name for name, _ in _entries(listed)] if isinstance(listed, list) else []
    return bool(names) and all(name and isinstance(name, str) for name in names)


def parse_listing(document: Any) -> Listing:
    return listing_of(Plain.name, _entries(document), _method)


def _entries(document: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    methods = _list_in(document)
    if isinstance(methods, dict):
        yield from ((name, entry) for name, entry in methods.items() if isinstance(entry, dict))
        return
    if isinstance(methods, str):
        names = methods.split() if _NAMES.fullmatch(methods.strip()) else []
        methods = names if len(names) > 1 else []
    for entry in list_of(methods):
        yield (entry, {}) if isinstance(entry, str) else (_name(object_of(entry)), object_of(entry))


def _list_in(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return next((document[member] for member in _LIST_MEMBERS if isinstance(document.get(member), list | dict)), None)


def _name(entry: dict[str, Any]) -> Any:
    """Return the name of an entry. A ``method`` or ``command`` may have its arguments after the name."""
    name = next((entry[member] for member in _NAME_MEMBERS if member in entry), None)
    return name.partition(" ")[0] if isinstance(name, str) and "name" not in entry else name


def _method(name: str, entry: dict[str, Any]) -> Method:
    declared = next((entry[key] for key in _PARAMETER_MEMBERS if key in entry), None)
    schema = declared if isinstance(declared, dict) and isinstance(declared.get("properties"), dict) else None
    return fill_from_docstring(
        Method(
            name,
            title=text_of(entry.get("title")),
            description=text_of(entry.get("description")) or text_of(entry.get("summary")),
            parameters=() if schema else _parameters(declared),
            input_schema=schema,
            structure=Structure.UNKNOWN if declared is None else Structure.BY_NAME,
            result=schema_of_word(next((entry[key] for key in _RESULT_MEMBERS if key in entry), None)),
        )
    )


def _parameters(declared: Any) -> tuple[Parameter, ...] | None:
    if isinstance(declared, dict):
        return tuple(_parameter(name, item) for name, item in declared.items())
    if isinstance(declared, list):
        return tuple(_parameter(text_of(object_of(item).get("name")), item) for item in declared)
    return None


def _parameter(name: str, item: Any) -> Parameter:
    """Return the parameter of a name or an entry; in an object by name, ``item`` may also be the word for its type."""
    if isinstance(item, str):
        return Parameter(name, schema_of_word(item)) if name else Parameter(item)
    entry = object_of(item)
    schema: Schema = schema_of_word(entry.get("schema", entry.get("type")))
    keywords = {keyword: entry[keyword] for keyword in _SCHEMA_KEYWORDS if keyword in entry}
    if keywords:
        schema = {**(schema if isinstance(schema, dict) else {}), **keywords}
    required = entry.get("required") is True or entry.get("optional") is False
    return Parameter(name, schema, required, text_of(entry.get("description")))
