"""Read the listing of Drupal's jsonrpc module: ``GET {base}/jsonrpc/methods`` (jsonrpc_discovery 8.x-1.x to 3.x).

PHP shows: an empty map is ``[]``, empty members are absent, and ``required`` only appears where it is true. A
parameter has its schema twice; the outer one is complete. Links are not followed, because their host is what Drupal
takes for its own. The list has only the methods that the user of the request may call.
"""

import asyncio
from typing import Any, Final
from urllib.parse import quote

from gateway.listing.dialect import DialectInfo, ListingSource, first_match, get_question, listing_of, refuse_half
from gateway.listing.entries import object_of, schema_of, text_of
from gateway.model import HttpFacts, Listing, Method, Parameter, Structure
from gateway.text import url_beside

PATH: Final = "/jsonrpc/methods"
_CONCURRENCY: Final = 4
_MAX_DETAILS: Final = 500


def is_of_drupal(http: HttpFacts) -> bool:
    """Return whether an answer says that it is Drupal's."""
    return "X-Drupal-Dynamic-Cache" in http.headers or http.headers.get("X-Generator", "").startswith("Drupal")


class Drupal:
    name = "drupal"
    info = DialectInfo(
        spoken_by="Drupal's jsonrpc module with jsonrpc_discovery, 8.x-1.x to 3.x",
        requests="`GET {base}/jsonrpc/methods`",
        recognized_by="`data[]` of `JsonRpcMethod…`, or with `attributes.usage`",
        carries=("description", "parameters", "types", "required"),
        params="by name",
        not_carried="Titles, result schemas and permissions are not in this listing. Links are not followed: their "
        "host is what the site takes for its own.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [get_question(source, url_beside(source.url, PATH))]
        document = await first_match(questions, recognizes, "without data[] of JsonRpcMethod entries")
        return parse_listing(await _add_parameters(source, document))


async def _add_parameters(source: ListingSource, document: dict[str, Any]) -> dict[str, Any]:
    """Return the collection with the parameters of each entry. A release of 1.x has them only in the resource of each
    entry; where one entry of the collection has them, all have."""
    entries = [object_of(entry) for entry in document["data"]]
    if any("params" in object_of(entry.get("attributes")) for entry in entries):
        return document
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def add_details(entry: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(entry.get("id"), str):
            return entry
        async with slots:
            # Our own address, not the entry's link: the link may name another host.
            answer = await source.get_document(url_beside(source.url, f"{PATH}/{quote(entry['id'], safe='')}"))
        refuse_half(f"GET {PATH}/{entry['id']}", answer)
        resource = object_of(answer.value)
        return resource if resource.get("id") == entry["id"] else entry

    return {
        **document,
        "data": await asyncio.gather(*map(add_details, entries[:_MAX_DETAILS])) + entries[_MAX_DETAILS:],
    }


def recognizes(document: Any) -> bool:
    """Return whether a document is this listing. An empty one is recognized by its ``self`` link."""
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
    entries = map(object_of, document["data"])
    named = ((entry.get("id"), object_of(entry.get("attributes"))) for entry in entries)
    return listing_of(Drupal.name, named, _method)


def _method(name: str, attributes: dict[str, Any]) -> Method:
    declared = attributes.get("params")
    named = [("", item) for item in declared] if isinstance(declared, list) else object_of(declared).items()
    return Method(
        name,
        description=text_of(attributes.get("usage")),
        parameters=tuple(_parameter(key, item) for key, item in named),
        structure=Structure.BY_NAME,  # the module answers an array with HTTP 200 and ignores its values
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
