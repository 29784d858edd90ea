"""What of an OpenRPC document reaches a model besides names and schemas, and the documents that it leads to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.backend.http import HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import BackendSource
from gateway.catalog.build import Builder
from gateway.http_client.session import Outbound
from gateway.listing.dialect import NoListing
from gateway.listing.documents import inline_documents
from gateway.listing.openrpc import parse_listing
from gateway.listing.static import Static
from gateway.model import Catalog, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, ListingSettings, Params
from tests.each import each
from tests.tables import each_row

LONG = "Looks up a book by its number, and tells where in the library it stands at the moment."


def described(**members: Any) -> str:
    (method,) = parse_listing({"openrpc": "1.2.6", "methods": [{"name": "m", "params": [], **members}]}).methods
    return method.description


def test_a_summary_that_is_longer_than_a_title_begins_the_description() -> None:
    assert described(summary=LONG, description="Slow.") == f"{LONG}\n\nSlow."
    assert described(summary="Short.", description="Slow.") == "Slow."
    assert described(summary=LONG, description=f"Note: {LONG}") == f"Note: {LONG}"


def test_errors_and_examples_are_told() -> None:
    errors = [{"code": 404, "message": "No such\nbook", "data": "Try another"}, {"code": 5}, {"message": "Lost"}, 7]
    value = {"name": "number", "value": 7}
    examples = [{"params": [value, {"name": "all", "value": True}], "result": {"value": {"title": "Moby Dick"}}}]
    assert described(description="A book.", errors=errors, examples=examples).split("\n\n") == [
        "A book.",
        "Errors:\n404 No such book: Try another\n5\nLost",
        'Examples:\n{"number":7,"all":true} → {"title":"Moby Dick"}',
    ]


def test_an_example_of_what_has_headings_for_names_is_by_position() -> None:
    example = {"params": [{"name": "Book number", "value": 7}, {"value": None}]}
    assert described(examples=[example]) == "Examples:\n[7,null]"


@each("example", [None, 5, {}, {"params": 5}, {"params": [5]}, {"params": [{"name": [], "value": 1}]}])
def test_an_example_that_is_none_is_left_out(example: Any) -> None:
    assert described(description="A book.", examples=[example]) == "A book."


def test_many_and_long_ones_are_bounded() -> None:
    errors = [{"code": number, "message": "x" * 5000} for number in range(1000)]
    examples = [{"params": [{"name": "a", "value": "x" * 5000}], "result": {"value": "y" * 5000}}] * 1000
    assert len(described(errors=errors, examples=examples).encode()) < 6000


@each_row
def test_a_name_that_stands_twice_is_one_argument_only_where_arguments_go_by_name(
    structure: str | None, names: list[str], sent: Structure
) -> None:
    entry = {"name": "m", "paramStructure": structure, "params": [{"name": "b"}, {"name": "b"}, {"name": "a"}]}
    (method,) = parse_listing({"openrpc": "1.2.6", "methods": [entry]}).methods
    assert [parameter.name for parameter in method.parameters or ()] == names
    assert method.structure is sent


# --- documents ----------------------------------------------------------------------------------------------

MAIN = {
    "openrpc": "1.2.6",
    "methods": [
        {"name": "find", "params": [{"name": "book", "schema": {"$ref": "./parts/common.json#/schemas/Book"}}]},
        {"$ref": "parts/methods.yaml#/methods/0"},
    ],
}
COMMON = {
    "schemas": {
        "Book": {"type": "object", "properties": {"shelf": {"$ref": "#/schemas/Shelf"}}},
        "Shelf": {"type": "integer"},
    }
}
METHODS = {"methods": [{"name": "lend", "params": [{"name": "book", "schema": {"$ref": "common.json#/schemas/Book"}}]}]}
BOOK = {"type": "object", "properties": {"shelf": {"$ref": "#/$defs/Shelf"}}}


async def catalog_of(document: Any) -> Catalog:
    return await Builder(Params(), ValidatorCache()).build_catalog(parse_listing(document), CatalogSettings())


async def test_references_into_named_documents_are_resolved() -> None:
    whole = inline_documents(MAIN, {"parts/common.json": COMMON, "./parts/methods.yaml": METHODS})
    catalog = await catalog_of(whole)
    assert catalog.names == ("find", "lend")
    for tool in catalog.tools:
        assert tool.input_schema["properties"]["book"] == {"$ref": "#/$defs/Book"}
        assert tool.input_schema["$defs"] == {"Book": BOOK, "Shelf": {"type": "integer"}}


async def test_a_reference_into_a_document_that_is_not_named_is_quarantined_with_the_knob() -> None:
    catalog = await catalog_of(inline_documents(MAIN, {"parts/methods.yaml": METHODS}))
    assert catalog.names == ()
    for entry in catalog.quarantined:
        assert entry.reason.endswith("leads out of the listing, and nothing is fetched (backend.listing.documents)")


def test_a_listing_without_named_documents_is_left_as_it_is() -> None:
    assert inline_documents(MAIN, {}) is MAIN


def test_documents_may_refer_to_each_other_and_to_themselves_in_circles() -> None:
    one = {"a": {"properties": {"b": {"$ref": "two.json#/b"}, "self": {"$ref": "#"}, "anchor": {"$ref": "#here"}}}}
    two = {"b": {"properties": {"a": {"$ref": "one.json#/a"}}}}
    inside = inline_documents({"openrpc": "1.2.6", "methods": []}, {"one.json": one, "two.json": two})["x-documents"]
    assert inside["0"]["a"]["properties"] == {
        "b": {"$ref": "#/x-documents/1/b"},
        "self": {"$ref": "#/x-documents/0"},
        "anchor": {"$ref": "#here"},
    }
    assert inside["1"]["b"]["properties"]["a"] == {"$ref": "#/x-documents/0/a"}


async def test_the_files_are_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "openrpc.json").write_text(json.dumps(MAIN))
    (tmp_path / "common.json").write_text(json.dumps(COMMON))
    (tmp_path / "methods.yaml").write_text(
        "methods: [{name: lend, params: [{name: book, schema: {$ref: 'common.json#/schemas/Book'}}]}]"
    )
    files = {"parts/common.json": str(tmp_path / "common.json"), "parts/methods.yaml": str(tmp_path / "methods.yaml")}
    url = "http://127.0.0.1:9/"
    transport = HttpTransport(Outbound(), url)
    try:
        source = BackendSource(
            transport,
            url,
            RequestParts(),
            listing=ListingSettings(dialect="static", file=str(tmp_path / "openrpc.json"), documents=files),
            max_bytes=2**20,
        )
        listing = await Static().fetch_listing(source)
        assert [method.name for method in listing.methods] == ["find", "lend"]
        (tmp_path / "common.json").unlink()
        with pytest.raises(NoListing, match=r"common\.json: No such file"):
            await Static().fetch_listing(source)
    finally:
        await transport.close()
