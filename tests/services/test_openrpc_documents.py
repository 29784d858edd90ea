"""OpenRPC documents that other people publish become tools, and nothing of them is lost but what is listed here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from gateway import jsonrpc
from gateway.catalog.build import Builder
from gateway.listing.openrpc import parse_listing
from gateway.model import Catalog, Tool
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.services.launch import NODE_PROJECT
from tests.services.process import ServiceMissing

Json = dict[str, Any]
METAMASK = "@metamask/api-specs/dist/build"
EXAMPLES = "@open-rpc/examples/build/service-descriptions"
DOCUMENTS = {
    f"{METAMASK}/openrpc.json": 55,
    f"{METAMASK}/multichain-openrpc.json": 6,
    f"{EXAMPLES}/api-with-examples-openrpc.json": 2,
    f"{EXAMPLES}/link-example-openrpc.json": 6,
    f"{EXAMPLES}/params-by-name-petstore-openrpc.json": 3,
    f"{EXAMPLES}/petstore-expanded-openrpc.json": 4,
    f"{EXAMPLES}/petstore-openrpc.json": 3,
    f"{EXAMPLES}/simple-math-openrpc.json": 2,
}

LOST_OF_METHODS = {"externalDocs", "links", "servers"}
"""What a client of MCP has no place for."""
LOST_OF_PARAMETERS = {"deprecated"}
LOST_OF_SCHEMAS: set[str] = set()


@pytest.fixture(params=DOCUMENTS, ids=lambda path: path.rpartition("/")[2])
def document(request: pytest.FixtureRequest) -> Json:
    path = NODE_PROJECT / "node_modules" / request.param
    if not path.exists():
        raise ServiceMissing(f"npm's {request.param} is missing: run tests/install.sh with the venv's python")
    found: Json = jsonrpc.decode(path.read_bytes())
    assert len(found["methods"]) == DOCUMENTS[request.param]
    return found


@pytest.fixture
def catalog(document: Json) -> Catalog:
    return asyncio.run(
        Builder(Params(), ValidatorCache()).build_catalog(parse_listing(document), CatalogSettings(exclude=()))
    )


def pairs(document: Json, catalog: Catalog) -> Iterator[tuple[Json, Tool]]:
    for method in document["methods"]:
        tool = catalog.by_name.get(method["name"])
        assert tool is not None
        yield method, tool


def resolved(value: Any, document: Any) -> Any:
    while isinstance(value, dict) and isinstance(value.get("$ref"), str):
        target = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        value = target
    return value


def losses(came: Any, document: Json, published: Any, whole: Any, seen: set[tuple[int, int]]) -> Iterator[str]:
    """The keywords of a schema, wherever they stand in it, that are not published or not as they came."""
    came, published = resolved(came, document), resolved(published, whole)
    if (id(came), id(published)) in seen:
        return
    seen.add((id(came), id(published)))
    if isinstance(came, dict) and isinstance(published, dict):
        for keyword, content in came.items():
            if keyword not in published:
                yield keyword
            else:
                yield from losses(content, document, published[keyword], whole, seen)
    elif isinstance(came, list) and isinstance(published, list) and len(came) == len(published):
        for child, other in zip(came, published, strict=True):
            yield from losses(child, document, other, whole, seen)
    elif came != published and (came, published) != (True, {}):  # two ways to say any value
        yield f"{came} as {published}"


def test_every_method_becomes_a_tool(document: Json, catalog: Catalog) -> None:
    assert [(entry.name, entry.reason) for entry in catalog.quarantined] == []
    assert {tool.method for tool in catalog.tools} == {method["name"] for method in document["methods"]}
    for tool in catalog.tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert "outputSchemaDropped" not in tool.meta


def test_of_a_method_only_what_is_listed_here_is_lost(document: Json, catalog: Catalog) -> None:
    told = {"name", "params", "result", "summary", "description", "tags", "deprecated", "paramStructure"}
    kept = told | {"errors", "examples"}
    for method, tool in pairs(document, catalog):
        assert method.keys() - kept <= LOST_OF_METHODS
        summary, description = method.get("summary", ""), method.get("description", "")
        assert description in tool.description
        assert summary == tool.title or summary in tool.description
        for error in [resolved(error, document) for error in method.get("errors", ())][:10]:
            assert " ".join(f"{error['code']} {error['message']}".split()) in tool.description
        assert ("\n\nExamples:\n" in f"\n\n{tool.description}") == any(
            "params" in e for e in method.get("examples", ())
        )
        tags = [resolved(tag, document)["name"] for tag in method.get("tags", ())]
        assert list(tool.meta.get("tags", ())) == tags
        assert ("deprecated" in tool.meta) == method.get("deprecated", False)


def test_of_its_parameters_and_result_only_what_is_listed_here_is_lost(document: Json, catalog: Catalog) -> None:
    for method, tool in pairs(document, catalog):
        descriptors = [resolved(parameter, document) for parameter in method["params"]]
        properties = tool.input_schema["properties"]
        assert [descriptor["name"] for descriptor in descriptors] == list(tool.binding.order)
        required = [descriptor["name"] for descriptor in descriptors if descriptor.get("required")]
        own = dict(tool.binding.own_names)
        assert [own.get(name, name) for name in tool.input_schema.get("required", [])] == required
        for descriptor, published in zip(descriptors, properties.values(), strict=True):
            assert descriptor.keys() - {"name", "schema", "required", "description"} <= LOST_OF_PARAMETERS
            schema = descriptor["schema"]
            if "description" in descriptor:  # which wins over the schema's
                assert published["description"] == descriptor["description"]
                schema = {keyword: content for keyword, content in schema.items() if keyword != "description"}
            assert set(losses(schema, document, published, tool.input_schema, set())) <= LOST_OF_SCHEMAS
        result = resolved(method.get("result"), document)
        if result and resolved(result["schema"], document) not in (True, {}):
            assert (
                set(losses(result["schema"], document, tool.output_schema, tool.output_schema, set()))
                <= LOST_OF_SCHEMAS
            )
