"""Read service descriptions: ``system.describe`` of JSON-RPC 1.1, and ``rpc.describe`` of Flask-JSONRPC.

JSON-RPC 1.1 (working draft of 7 August 2006, section 6) has ``procs``, a list. RPC4Django calls it ``methods``, and has
XML-RPC's words for types in ``rpctype``. Flask-JSONRPC from 3 on has ``methods``, an object. None has to say which
parameters are required. ``Null``, and ``Object`` without properties, also mean "not declared".
"""

from collections.abc import Iterator
from dataclasses import replace
from inspect import cleandoc
from typing import Any, Final

from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_listing, listing_of
from gateway.listing.docstrings import fill_from_docstring
from gateway.listing.entries import any_if_null, entry_of, list_of, object_of, schema_of_word, text_of
from gateway.model import Listing, Method, Parameter, Schema, ServiceInfo, Structure

NOT_SAID: Final = "The service does not say which arguments are required."
_UNKNOWN: Final = "The service does not say whether there are arguments."
_REMARK: Final = (
    "the service does not say which arguments are required, so all are optional; "
    "mark the required ones under catalog.tools.*.arguments"
)
_BOUNDS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "default": "default",
}


class Describe:
    name = "describe"
    info = DialectInfo(
        spoken_by="JSON-RPC 1.1 service descriptions; Flask-JSONRPC 1 to 4; RPC4Django",
        requests="`rpc.describe`, then `system.describe`",
        recognized_by="`procs[]` with `sdversion`, `methods[]` with `params` of `rpctype`, or `methods{}` of "
        "entries with `type: method`",
        carries=("description", "parameters", "types", "result"),
        params="by name; by position with `rpctype`",
        not_carried="Which arguments are required, except where a parameter of Flask-JSONRPC 4 says so; each tool's "
        "description says this. `params: []` in 1.1 may be a function without annotations; its arguments stay open.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = (call_question(source, method) for method in ("rpc.describe", "system.describe"))
        return await first_listing(questions, recognizes, "no service description", parse_listing)


def recognizes(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    procs, methods = document.get("procs"), document.get("methods")
    if isinstance(procs, list):
        return isinstance(document.get("sdversion"), str) or any("name" in object_of(proc) for proc in procs)
    if isinstance(methods, list):
        fields = (field for entry in methods for field in list_of(object_of(entry).get("params")))
        return any("rpctype" in object_of(field) for field in fields)
    # Kodi's document also has methods{} with "type": "method", but with types{} beside it.
    named = object_of(methods).values() if "types" not in document else ()
    return any(object_of(method).get("type") == "method" for method in named)


def parse_listing(document: dict[str, Any]) -> Listing:
    procs, methods = document.get("procs"), document.get("methods")
    if isinstance(procs, list):
        listing = listing_of(Describe.name, _named(procs), _procedure)
    elif isinstance(methods, list):
        listing = listing_of(Describe.name, _named(methods), _positional)
    else:
        listing = listing_of(Describe.name, object_of(methods).items(), _method)
    has_remark = any(NOT_SAID in method.description for method in listing.methods)
    return replace(
        listing,
        service=ServiceInfo(
            text_of(document.get("title")) or text_of(document.get("name")),
            text_of(document.get("version")),
            text_of(document.get("description")) or text_of(document.get("summary")),
            text_of(document.get("help")),
        ),
        notes=(_REMARK,) if has_remark else (),
    )


def _named(entries: list[Any]) -> Iterator[tuple[Any, Any]]:
    return ((object_of(entry).get("name"), entry) for entry in entries)


def _procedure(name: str, proc: dict[str, Any]) -> Method:
    """Return the method of an entry of ``procs``. Its parameters are names, or objects with a name and a type."""
    method = _of_entry(name, proc, Structure.EITHER)
    if not method.parameters:  # an empty list may also stand for a function without annotations
        method = replace(method, parameters=None, structure=Structure.BY_NAME)
    method = fill_from_docstring(method)
    return _append_remark(method, NOT_SAID if method.parameters else _UNKNOWN)


def _positional(name: str, entry: dict[str, Any]) -> Method:
    """Return the method of an entry of RPC4Django's ``methods``, called by position, as XML-RPC has it."""
    method = fill_from_docstring(_of_entry(name, entry, Structure.BY_POSITION))
    return _append_remark(method, NOT_SAID if method.parameters else "")


def _of_entry(name: str, entry: dict[str, Any], structure: Structure) -> Method:
    result = entry.get("return")
    return Method(
        name,
        description=text_of(entry.get("summary")) or text_of(entry.get("help")),
        parameters=tuple(map(_parameter, list_of(entry.get("params")))),
        structure=structure,
        result=_schema(result if isinstance(result, dict) else {"type": result}),
        annotations={"idempotentHint": True} if entry.get("idempotent") is True else {},
    )


def _method(name: str, entry: Any) -> Method:
    """Return the method of an entry of Flask-JSONRPC's ``methods``."""
    entry = entry_of(entry)
    fields = list_of(entry.get("params"))
    says_required = all("required" in object_of(field) for field in fields)
    summary, description = text_of(entry.get("summary")), text_of(entry.get("description"))
    tags = [object_of(tag).get("name") for tag in list_of(entry.get("tags"))]
    named = [tag for tag in tags if isinstance(tag, str)]
    method = Method(
        name,
        title=summary if description else "",
        description=description or summary,
        parameters=tuple(map(_parameter, fields)),
        structure=Structure.EITHER,
        result=_schema(object_of(entry.get("returns"))),
        meta={"tags": named} if named else {},
        deprecated=entry.get("deprecated") is True,
    )
    return _append_remark(fill_from_docstring(method), "" if says_required else NOT_SAID)


def _parameter(field: Any) -> Parameter:
    if isinstance(field, str):
        return Parameter(field)
    field = object_of(field)
    description = text_of(field.get("description")) or text_of(field.get("summary"))
    return Parameter(text_of(field.get("name")), _schema(field), field.get("required") is True, description)


def _schema(field: dict[str, Any]) -> Schema:
    schema = any_if_null(schema_of_word(field.get("type", field.get("rpctype"))))
    properties = object_of(field.get("properties"))
    if schema == {"type": "object"}:
        if not properties:
            return True
        inner = {name: _schema_with_description(object_of(item)) for name, item in properties.items()}
        needed = [name for name, item in properties.items() if object_of(item).get("required") is True]
        schema = {"type": "object", "properties": inner} | ({"required": needed} if needed else {})
    if not isinstance(schema, dict):
        return schema
    schema = schema | {keyword: field[member] for member, keyword in _BOUNDS.items() if field.get(member) is not None}
    return {"anyOf": [schema, {"type": "null"}]} if field.get("nullable") is True else schema


def _schema_with_description(field: dict[str, Any]) -> Schema:
    schema, description = _schema(field), text_of(field.get("description"))
    return {**object_of(schema), "description": description} if description else schema


def _append_remark(method: Method, remark: str) -> Method:
    # Flask-JSONRPC sends docstrings with their indentation.
    paragraphs = (cleandoc(paragraph).strip() for paragraph in (method.description, remark))
    return replace(method, description="\n\n".join(filter(None, paragraphs)))
