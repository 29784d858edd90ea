"""Drupal's jsonrpc module: ``GET {base}/jsonrpc/methods`` (jsonrpc_discovery 8.x-1.x to 3.x).

PHP leaves its marks: an empty map is ``[]``, members that are empty are absent, ``required`` only appears when true,
and a parameter's schema stands twice, of which the outer one is complete. Links carry the backend's own idea of its
host and are not followed. The list holds only what the asking user may call.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import quote

from gateway.listing.dialect import (
    About,
    ListingSource,
    first_answer,
    get_question,
    name_fault,
    object_of,
    schema_of,
    text_of,
)
from gateway.model import Listing, Method, Parameter, QuarantinedMethod, Structure

PATH: Final = "/jsonrpc/methods"
_CONCURRENCY: Final = 4
_MOST_DETAILS: Final = 500


class Drupal:
    name = "drupal"
    about = About(
        of="Drupal's jsonrpc module with jsonrpc_discovery, 8.x-1.x to 3.x",
        asked="`GET {base}/jsonrpc/methods`",
        recognized="`data[]` of `JsonRpcMethod…`, or with `attributes.usage`",
        carries=("description", "parameters", "types", "required"),
        passed="by name",
        lost="Titles, result schemas and permissions are not in this listing. Links are not followed: they are what "
        "the site thinks its host is.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        question = get_question(source, source.listing_url or source.base + PATH)
        document = await first_answer([question], recognizes, "without data[] of JsonRpcMethod entries")
        return parse_listing(await _complete(source, document))


async def _complete(source: ListingSource, document: dict[str, Any]) -> dict[str, Any]:
    """The collection with parameters. A release of 1.x leaves them out of every entry of the collection, and has
    them in the entry's own resource; where one entry has them, all do that take any."""
    entries = [object_of(entry) for entry in document["data"]]
    if any("params" in object_of(entry.get("attributes")) for entry in entries):
        return document
    turn = asyncio.Semaphore(_CONCURRENCY)

    async def add_details(entry: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(entry.get("id"), str):
            return entry
        async with turn:
            # The address is ours: the links are what the backend thinks its host is.
            answer = await source.get_document(f"{source.base}{PATH}/{quote(entry['id'], safe='')}")
        whole = object_of(answer.value)
        return whole if whole.get("id") == entry["id"] else entry

    return {
        **document,
        "data": await asyncio.gather(*map(add_details, entries[:_MOST_DETAILS])) + entries[_MOST_DETAILS:],
    }


def recognizes(document: Any) -> bool:
    """Tell whether a document is this listing; an empty one is told by its link to itself."""
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        return False
    if not document["data"]:
        return "self" in object_of(document.get("links"))
    return any(
        isinstance(entry, dict)
        and (text_of(entry.get("type")).startswith("JsonRpcMethod") or "usage" in object_of(entry.get("attributes")))
        for entry in document["data"]
    )


def parse_listing(document: Any) -> Listing:
    methods = []
    quarantined: list[QuarantinedMethod] = []
    for index, entry in enumerate(document["data"]):
        entry = object_of(entry)
        fault = name_fault(entry.get("id"), index)
        if fault is not None:
            quarantined.append(fault)
            continue
        methods.append(_method(entry["id"], object_of(entry.get("attributes"))))
    return Listing(Drupal.name, tuple(methods), tuple(quarantined))


def _method(name: str, attributes: dict[str, Any]) -> Method:
    declared = attributes.get("params")
    if isinstance(declared, list):
        parameters = tuple(_parameter(f"arg{index}", item) for index, item in enumerate(declared))
        structure = Structure.BY_POSITION if declared else Structure.BY_NAME
    else:
        parameters = tuple(_parameter(key, item) for key, item in object_of(declared).items())
        # An array is taken with HTTP 200, and its values silently ignored.
        structure = Structure.BY_NAME
    return Method(
        name,
        Drupal.name,
        title=text_of(attributes.get("title")),
        description=text_of(attributes.get("usage")),
        parameters=parameters,
        structure=structure,
        result=attributes["output"] if isinstance(attributes.get("output"), dict) else None,
    )


def _parameter(name: str, definition: Any) -> Parameter:
    definition = object_of(definition)
    attributes = object_of(definition.get("attributes"))
    schema = definition.get("schema")
    if not isinstance(schema, dict):
        schema = attributes.get("schema")
    return Parameter(
        name, schema_of(schema), attributes.get("required") is True, text_of(attributes.get("description"))
    )
