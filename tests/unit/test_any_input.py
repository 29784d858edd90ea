"""Whatever a stranger sends: no crash, no fetch, and nothing unsound is published."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jsonschema
import pytest
import referencing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import jsonrpc
from gateway.backend.interview import Interview
from gateway.backend.redaction import MAX_BYTES, ErrorRedactor
from gateway.catalog.build import Builder
from gateway.catalog.normalize import ToolPolicy, build_tool
from gateway.errors import ParseError
from gateway.jsonrpc.response import ResponseError, parse_response
from gateway.listing.dialect import Dialect, NoListing
from gateway.listing.drupal import Drupal
from gateway.listing.introspection import SystemIntrospection
from gateway.listing.jsonrpc_mcp import JsonrpcMcp
from gateway.listing.openrpc import OpenRpc
from gateway.model import Method, NameStyle, Parameter, SourceAnswer
from gateway.schema.bundling import UnsoundSchema
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, ListingSettings, Params, ToolOverride
from tests.extent import size
from tests.pace import quickly

STABLE = settings(
    max_examples=size(80, by_day=8), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
VALIDATORS = ValidatorCache()

PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "items", "prefixItems", "anyOf", "allOf", "oneOf", "not", "$ref", "$defs",
     "enum", "const", "default", "pattern", "patternProperties", "additionalProperties", "dependencies", "extends",
     "disallow", "divisibleBy", "enums", "additionalItems", "exclusiveMinimum", "nullable", "$recursiveRef",
     "$dynamicRef", "$dynamicAnchor", "$recursiveAnchor", "unevaluatedProperties", "contains", "examples", "0",
     "dependentSchemas", "if", "then", "$schema", "$id", "$anchor", "id", "description", "minimum", "format",
     "a", "b", "a/b~c"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["object", "array", "string", "#", "#/", "#/$defs/a", "#/properties/a", "#/components/schemas/X",
     "http://e.example/x", "^a+$", "(?=a)", "http://json-schema.org/draft-07/schema#", "(", "😀",
     "http://json-schema.org/draft-03/schema#", "any", "#x", "x", "X", "int"]
)  # fmt: skip
SCHEMAS = st.recursive(
    PLAIN | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=25,
)
MEMBERS = st.sampled_from(
    ["openrpc", "methods", "name", "params", "schema", "required", "result", "components", "schemas", "$ref",
     "tags", "servers", "url", "paramStructure", "x-scopes", "data", "type", "id", "attributes", "usage",
     "links", "self", "output", "title", "tools", "inputSchema", "outputSchema", "nextCursor", "annotations",
     "auth", "scopes", "description", "deprecated", "summary", "info"]
)  # fmt: skip
TERMS = st.sampled_from(
    ["1.2.6", "1.3", "JsonRpcMethod", "by-name", "either", "#/components/x", "/path", "//evil", "m", "n"]
)  # fmt: skip
DOCUMENTS = st.recursive(
    PLAIN | TERMS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS, inner, max_size=6),
    max_leaves=40,
)


class OneDocument:
    """A source that answers every question with the same document, and counts the questions."""

    url = "http://backend.example/jsonrpc"
    listing = ListingSettings()

    def __init__(self, document: Any) -> None:
        self._seen = SourceAnswer("JSON", document, has_value=True)
        self.asked: list[str] = []
        self.interview = Interview()

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        self.asked.append(method)
        return self._seen

    async def get_document(self, url: str) -> SourceAnswer:
        self.asked.append(url)
        return self._seen

    async def read_file(self, file: str) -> bytes:
        raise OSError


def entries(member: str, head: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Documents of about the right shape, whose entries are anything."""
    return DOCUMENTS.map(lambda entry: head | {member: [entry, entry] if not isinstance(entry, list) else entry})


ROUGHLY = (
    DOCUMENTS
    | entries("methods", {"openrpc": "1.2.6", "components": {"schemas": {"X": {"type": "null"}}}})
    | entries("data", {"links": {"self": "x"}})
    | entries("tools", {"nextCursor": None})
    | st.lists(DOCUMENTS, max_size=5)
    | st.fixed_dictionaries(
        {
            "openrpc": st.just("1.3.2"),
            "methods": st.lists(
                st.fixed_dictionaries(
                    {"name": TERMS},
                    optional={
                        "params": DOCUMENTS
                        | st.lists(
                            st.fixed_dictionaries(
                                {}, optional={"name": DOCUMENTS, "schema": SCHEMAS, "required": PLAIN}
                            )
                        ),
                        "result": DOCUMENTS | st.fixed_dictionaries({"schema": SCHEMAS}),
                        "tags": DOCUMENTS,
                        "servers": DOCUMENTS,
                        "paramStructure": DOCUMENTS,
                        "x-scopes": DOCUMENTS,
                        "deprecated": PLAIN,
                        "summary": DOCUMENTS,
                    },
                ),
                max_size=4,
            ),
        }
    )
    | st.fixed_dictionaries(
        {
            "tools": st.lists(
                st.fixed_dictionaries(
                    {"name": TERMS, "inputSchema": SCHEMAS},
                    optional={"outputSchema": SCHEMAS, "annotations": DOCUMENTS, "title": DOCUMENTS},
                ),
                max_size=4,
            )
        }
    )
)
DIALECTS = [OpenRpc(), Drupal(), JsonrpcMcp(), SystemIntrospection()]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@STABLE
@given(document=ROUGHLY)
async def test_any_document_is_a_listing_or_none_and_builds(dialect: Dialect, document: Any) -> None:
    source = OneDocument(document)
    try:
        listing = await dialect.fetch_listing(source)
    except NoListing:
        return
    assert all(question.startswith(("http://backend.example/", "system.", "rpc.")) for question in source.asked)
    catalog = await Builder(Params(), VALIDATORS).build_catalog(listing, CatalogSettings(exclude=()))
    names = {method.name for method in listing.methods}
    assert {tool.method for tool in catalog.tools} <= names
    quarantined = {entry.name for entry in catalog.quarantined}
    assert names <= {tool.method for tool in catalog.tools} | quarantined
    for tool in catalog.tools:
        check_published(tool.input_schema)
        jsonrpc.encode([tool.output_schema, tool.annotations, tool.meta])


def check_published(schema: Any) -> None:
    assert schema["type"] == "object"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert b"e.example" not in jsonrpc.encode(list(references(schema)))


def references(schema: Any, within_map: bool = False) -> Any:
    """The references of a schema; what is data (enum, const, default) holds none."""
    if isinstance(schema, dict):
        for key, child in schema.items():
            if key == "$ref" and not within_map:
                yield child
            elif within_map or key not in ("enum", "const", "default"):
                yield from references(child, not within_map and key in ("properties", "patternProperties", "$defs"))
    elif isinstance(schema, list):
        for child in schema:
            yield from references(child)


@settings(STABLE, max_examples=size(200, by_day=20))
@given(
    schema=SCHEMAS,
    root=st.fixed_dictionaries({"components": st.fixed_dictionaries({"schemas": st.just({"X": {"type": "null"}})})}),
)
def test_any_parameter_schema_makes_a_tool_or_is_unsound(schema: Any, root: Any) -> None:
    method = Method("m", parameters=(Parameter("a/b", schema, True), Parameter("c")), root=root)
    with quickly(0.5), suppress(UnsoundSchema):
        tool = build_tool(
            method, {NameStyle.MCP: "m", NameStyle.LLM: "m"}, ToolOverride(), ToolPolicy(Params()), VALIDATORS
        )
        check_published(tool.input_schema)
        assert [tool.binding.own_names.get(name, name) for name in tool.input_schema["properties"]] == ["a/b", "c"]


@settings(STABLE, max_examples=size(200, by_day=20))
@given(schema=SCHEMAS)
def test_any_whole_input_schema_makes_a_tool_or_is_unsound(schema: Any) -> None:
    method = Method("m", input_schema=schema if isinstance(schema, dict) else {"properties": schema}, result=schema)
    try:
        tool = build_tool(
            method, {NameStyle.MCP: "m", NameStyle.LLM: "m"}, ToolOverride(), ToolPolicy(Params()), VALIDATORS
        )
    except UnsoundSchema:
        return
    check_published(tool.input_schema)
    if isinstance(tool.output_schema, dict):
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


@STABLE
@given(schema=SCHEMAS, arguments=st.dictionaries(st.sampled_from("ab"), DOCUMENTS, max_size=2))
def test_what_is_published_decides_as_the_reference_implementation_does_where_that_one_can(
    schema: Any, arguments: Any
) -> None:
    method = Method("m", parameters=(Parameter("a", schema), Parameter("b")))
    try:
        tool = build_tool(
            method, {NameStyle.MCP: "m", NameStyle.LLM: "m"}, ToolOverride(), ToolPolicy(Params()), VALIDATORS
        )
    except UnsoundSchema:
        return
    if b'"pattern' in jsonrpc.encode(tool.input_schema):
        return  # the two know different regular expressions
    reference = jsonschema.Draft202012Validator(tool.input_schema, registry=referencing.Registry())
    assert VALIDATORS.compile(tool.input_schema).is_valid(arguments) == reference.is_valid(arguments)


@STABLE
@given(raw=st.binary(max_size=60) | DOCUMENTS.map(jsonrpc.encode))
def test_any_bytes_are_a_message_or_an_error_of_ours(raw: bytes) -> None:
    with suppress(ParseError, jsonrpc.BadMessage):
        jsonrpc.parse_message(jsonrpc.decode_strictly(raw))
    with suppress(ValueError):
        parse_response(raw, "1")


@STABLE
@given(message=st.text(), data=DOCUMENTS)
def test_any_fault_is_described_within_the_cap(message: str, data: Any) -> None:
    described = ErrorRedactor(["backend.example"]).error_text(ResponseError(1, message, data))
    assert 0 < len(described.encode()) <= MAX_BYTES
