"""Read the listing of Drupal's jsonrpc_mcp module: ``GET {base}/mcp/tools/list``, already in the shape of MCP tools.

The site's owner chose these tools, so ``/jsonrpc/methods`` may add details to them, but never a tool.
``/mcp/tools/describe`` is not asked: a wrong name there poisons the site's cache for all users.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from gateway.listing import drupal
from gateway.listing.dialect import (
    DialectInfo,
    ListingSource,
    NoListing,
    Step,
    add_step,
    listing_of,
    object_of,
    path_of,
    text_of,
    texts_of,
)
from gateway.model import Listing, Method, Structure
from gateway.text import masked_url

PATH: Final = "/mcp/tools/list"
MAX_PAGES: Final = 200


class JsonrpcMcp:
    name = "jsonrpc_mcp"
    info = DialectInfo(
        spoken_by="Drupal's jsonrpc_mcp module, 1.x",
        requests="`GET {base}/mcp/tools/list`, all pages; `GET {base}/jsonrpc/methods` for what an entry lacks",
        recognized_by="`tools[]` with `inputSchema`",
        carries=("title", "description", "parameters", "types", "required", "result", "scopes"),
        params="by name",
        not_carried="Nothing. `annotations` appear on REST, and in `_meta` on MCP; with `catalog.trust_annotations`, "
        "`readOnlyHint` and the other hints are published on both.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        url = source.listing_url or source.base + PATH
        entries: list[Any] = []
        cursor: str | None = None
        seen_cursors: set[str] = set()
        for _ in range(MAX_PAGES):
            separator = "&" if "?" in url else "?"
            answer = await source.get_document(
                url if cursor is None else f"{url}{separator}{urlencode({'cursor': cursor})}"
            )
            if not (answer.has_value and recognizes(answer.value)):
                steps: list[Step] = []
                add_step(steps, f"GET {masked_url(path_of(url))}", answer, "without tools[] that have an inputSchema")
                raise NoListing(steps)
            entries += answer.value["tools"]
            cursor = answer.value.get("nextCursor")
            # The module answers an unknown cursor with its first page, so a repeated cursor would never end.
            if not isinstance(cursor, str) or cursor in seen_cursors:
                break
            seen_cursors.add(cursor)
        return await self._add_details(source, parse_listing(entries))

    async def _add_details(self, source: ListingSource, listing: Listing) -> Listing:
        answer = await source.get_document(source.base + drupal.PATH)
        if not (answer.has_value and drupal.recognizes(answer.value)):
            return listing
        details = {method.name: method for method in drupal.parse_listing(answer.value).methods}
        methods = tuple(
            _merge_details(method, details[method.name]) if method.name in details else method
            for method in listing.methods
        )
        return replace(listing, methods=methods)


def recognizes(document: Any) -> bool:
    """Tell whether a document is a page of this listing. Other products use the same path, without input schemas."""
    if not isinstance(document, dict) or not isinstance(document.get("tools"), list):
        return False
    tools = document["tools"]
    if not tools:
        return "nextCursor" in document
    return any(isinstance(tool, dict) and "name" in tool and "inputSchema" in tool for tool in tools)


def parse_listing(entries: list[Any]) -> Listing:
    return listing_of(JsonrpcMcp.name, ((entry.get("name"), entry) for entry in map(object_of, entries)), _method)


def _method(name: str, entry: dict[str, Any]) -> Method:
    annotations = object_of(entry.get("annotations"))
    input_schema, output = entry.get("inputSchema"), entry.get("outputSchema")
    return Method(
        name,
        JsonrpcMcp.name,
        title=text_of(entry.get("title")),
        description=text_of(entry.get("description")),
        input_schema=input_schema if isinstance(input_schema, dict) else False,
        structure=Structure.BY_NAME,
        result=output if isinstance(output, dict | bool) else None,
        annotations=annotations,
        scopes=texts_of(object_of(annotations.get("auth")).get("scopes")),
    )


def _merge_details(method: Method, other: Method) -> Method:
    """Return the method with what it lacks and the other has: the description, and schemas of parameters."""
    input_schema = object_of(method.input_schema)
    properties = object_of(input_schema.get("properties"))
    schemas = {parameter.name: parameter.schema for parameter in other.parameters or ()}
    filled = {
        name: schemas[name] if not isinstance(schema, dict) and name in schemas else schema
        for name, schema in properties.items()
    }
    if filled != properties:
        method = replace(method, input_schema={**input_schema, "properties": filled})
    return method if method.description else replace(method, description=other.description)
