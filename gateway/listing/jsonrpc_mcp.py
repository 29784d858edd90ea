"""Read the listing of Drupal's jsonrpc_mcp module: ``GET {base}/mcp/tools/list``, already in the shape of MCP tools.

The site's owner chose these tools, so ``/jsonrpc/methods`` may add details to them, but never a tool.
``/mcp/tools/describe`` is not asked: a wrong name there poisons the site's cache for all users.
"""

from collections.abc import Sequence
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
    path_of,
    refuse_half,
)
from gateway.listing.entries import object_of, text_of, texts_of
from gateway.model import Listing, Method, SourceAnswer, Structure
from gateway.text import masked_url, url_beside

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
        url = source.listing.url or url_beside(source.url, PATH)
        separator = "&" if "?" in url else "?"
        entries: list[Any] = []
        cursors: list[Any] = [None]
        while len(cursors) == 1 or cursors[-1] is not None:
            query = "" if cursors[-1] is None else f"{separator}{urlencode({'cursor': cursors[-1]})}"
            answer = await source.get_document(url + query)
            fault = _fault_of_page(answer, cursors)
            if fault:  # half a list must not pass for the whole
                steps: list[Step] = []
                page = "" if len(cursors) == 1 else f", page {len(cursors)}"
                add_step(steps, f"GET {masked_url(path_of(url))}{page}", answer, fault)
                raise NoListing(steps, is_partial=bool(entries))
            entries += answer.value["tools"]
            cursors.append(answer.value.get("nextCursor"))
        return await self._add_details(source, parse_listing(entries))

    async def _add_details(self, source: ListingSource, listing: Listing) -> Listing:
        answer = await source.get_document(url_beside(source.url, drupal.PATH))
        refuse_half(f"GET {drupal.PATH}", answer)
        if not (answer.has_value and drupal.recognizes(answer.value)):
            return listing
        details = {method.name: method for method in drupal.parse_listing(answer.value).methods}
        methods = (_merge_details(one, details[one.name]) if one.name in details else one for one in listing.methods)
        return replace(listing, methods=tuple(methods))


def _fault_of_page(answer: SourceAnswer, cursors: Sequence[Any]) -> str:
    """Return what ends the sentence "JSON, but …" for a page that cannot be used, "" for a usable one. ``cursors`` are
    those of the pages until now."""
    is_empty_end = len(cursors) > 1 and answer.has_value and answer.value == {"tools": []}
    if not is_empty_end and not (answer.has_value and recognizes(answer.value)):
        return "without tools[] that have an inputSchema"
    cursor = answer.value.get("nextCursor")
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        return "with a nextCursor that is not a string"
    if cursor in cursors:  # the module answers an unknown cursor with its first page, so this would never end
        return "with a nextCursor that an earlier page had"
    return f"with more than {MAX_PAGES} pages" if len(cursors) == MAX_PAGES else ""


def recognizes(document: Any) -> bool:
    """Return whether a document is a page of this listing. Other products use the same path, without input schemas."""
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
    lacking = {name: schemas[name] for name, own in properties.items() if not isinstance(own, dict) and name in schemas}
    if lacking:
        method = replace(method, input_schema={**input_schema, "properties": properties | lacking})
    return method if method.description else replace(method, description=other.description)
