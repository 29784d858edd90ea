"""Read Kodi's ``JSONRPC.Introspect``: methods and their shared types, in JSON Schema draft 03 with keywords of its own.

A GET of the endpoint has the same answer. ``$ref`` is the id of a type, without ``#``; the types stay in
:attr:`~gateway.model.Method.root`, marked with their draft. The permissions that a method needs say best whether it
may do harm. They need params, so they are asked for only after Kodi is recognized.
"""

from dataclasses import replace
from typing import Any, Final

from gateway.listing.dialect import (
    DialectInfo,
    ListingSource,
    call_question,
    first_match,
    get_question,
    listing_of,
    refuse_half,
)
from gateway.listing.entries import entry_of, list_of, object_of, schema_of_word, text_of, texts_of
from gateway.model import Listing, Method, Parameter, ServiceInfo, Structure

INTROSPECT: Final = "JSONRPC.Introspect"
DRAFT: Final = "http://json-schema.org/draft-03/schema#"
_NOT_SCHEMA: Final = ("name", "required", "description")  # draft 03 has a boolean ``required`` here


class Kodi:
    name = "kodi"
    info = DialectInfo(
        spoken_by="Kodi's introspection",
        requests="`GET` of the endpoint itself, then `JSONRPC.Introspect`",
        recognized_by="`methods{}` beside `types{}`",
        carries=("description", "parameters", "types", "required", "result"),
        params="by name",
        not_carried="Notifications that Kodi sends. Permissions become annotations: `ReadData` alone is "
        "`readOnlyHint`, `RemoveData` is `destructiveHint`.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [get_question(source, source.url), call_question(source, INTROSPECT)]
        document = await first_match(questions, recognizes, "no methods{} beside types{}")
        if not any("permission" in object_of(method) for method in document["methods"].values()):
            answer = await source.call_method(INTROSPECT, {"getdescriptions": True, "getmetadata": True})
            refuse_half(INTROSPECT, answer)
            if answer.has_value and recognizes(answer.value):
                document = answer.value
        return parse_listing(document)


def recognizes(document: Any) -> bool:
    document = object_of(document)
    return isinstance(document.get("methods"), dict) and isinstance(document.get("types"), dict)


def parse_listing(document: dict[str, Any]) -> Listing:
    root = {"$schema": DRAFT, **document}

    def parse_entry(name: str, entry: Any) -> Method:
        entry = entry_of(entry)
        returns = entry.get("returns")
        return Method(
            name,
            description=text_of(entry.get("description")),
            parameters=tuple(map(_parameter, list_of(entry.get("params")))),
            structure=Structure.EITHER,
            result={"$schema": DRAFT, **returns} if isinstance(returns, dict) else schema_of_word(returns),
            root=root,
            annotations=_annotations(entry.get("permission")),
            deprecated=entry.get("deprecated") is True,
        )

    listing = listing_of(Kodi.name, document["methods"].items(), parse_entry)
    service = ServiceInfo(text_of(document.get("description")), text_of(document.get("version")))
    return replace(listing, service=service)


def _parameter(item: Any) -> Parameter:
    item = object_of(item)
    schema = {keyword: content for keyword, content in item.items() if keyword not in _NOT_SCHEMA}
    return Parameter(
        text_of(item.get("name")),
        {"$schema": DRAFT, **schema} if schema else True,
        item.get("required") is True,
        text_of(item.get("description")),
    )


def _annotations(permission: Any) -> dict[str, Any]:
    permissions = sorted(texts_of([permission] if isinstance(permission, str) else permission))
    hints = {"readOnlyHint": permissions == ["ReadData"], "destructiveHint": "RemoveData" in permissions}
    given = {hint: True for hint, holds in hints.items() if holds}
    return {"permissions": permissions, **given} if permissions else {}
