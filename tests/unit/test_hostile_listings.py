"""What a listing may hold to harm us, by the rows S01 to S22 of the threat model; the sound methods beside it stay.

Rows on names (S11, S12), texts (S13), pins (S14), headers (S16) and the timing of discovery (S17 to S20) have files of
their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gateway.catalog.build import Builder
from gateway.concurrency.collector import COLLECTOR
from gateway.listing.openrpc import parse_listing
from gateway.model import Catalog, Listing, Method, QuarantinedMethod
from gateway.schema.bundling import MAX_ENUM, MAX_SUBSCHEMAS
from gateway.schema.validation import MISMATCH, TOO_LARGE, ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each
from tests.fault.scripted import Bystander
from tests.pace import quickly
from tests.tables import each_row

Json = dict[str, Any]
GOOD = {"name": "good", "params": [{"name": "a", "schema": {"type": "string"}}]}


@contextmanager
def promptly(limit: float = 0.05) -> Iterator[None]:
    """Bound processor time, without that of full collections: listings are read without any."""
    with COLLECTOR.gc_paused(), quickly(limit):
        yield


async def built(*schemas: Any, tools: Any = None, components: Any = None, result: Any = None) -> Catalog:
    """The catalog of a listing with one method for each schema of a parameter ``p``, and a good method."""
    methods = [{"name": f"m{n}", "params": [{"name": "p", "schema": schema}]} for n, schema in enumerate(schemas)]
    if result is not None:
        methods.append({"name": "r", "params": [], "result": {"name": "x", "schema": result}})
    document = {"openrpc": "1.2.6", "methods": [*methods, GOOD], "components": {"schemas": components or {}}}
    settings = CatalogSettings.model_validate({"tools": tools or {}})
    return await Builder(Params(), ValidatorCache()).build_catalog(parse_listing(document), settings)


async def refused(schema: Any, components: Any = None) -> QuarantinedMethod:
    """Why the method with this schema is left out, and that an override of the argument brings it back."""
    with promptly():
        catalog = await built(schema, components=components)
    assert [tool.name for tool in catalog.tools] == ["good"]
    (entry,) = catalog.quarantined
    assert entry.name == "m0"
    assert entry.remedy == 'give it a schema under catalog.tools."m0".arguments.p.schema'
    override = {"m0": {"arguments": {"p": {"schema": {"type": "string"}}}}}
    freed = await built(schema, components=components, tools=override)
    assert [tool.name for tool in freed.tools] == ["good", "m0"]
    return entry


async def validator(schema: Any) -> Any:
    """The validator of the one method with this schema, whose argument is ``p``."""
    validators = ValidatorCache()
    document = {"openrpc": "1.2.6", "methods": [{"name": "m", "params": [{"name": "p", "schema": schema}]}]}
    (tool,) = (await Builder(Params(), validators).build_catalog(parse_listing(document), CatalogSettings())).tools
    return validators.compile(tool.input_schema)


def ladder(rungs: int, make: Any) -> Json:
    made = {f"S{n}": make({"$ref": f"#/$defs/S{n + 1}"}) for n in range(rungs)}
    return {"$ref": "#/$defs/S0", "$defs": {**made, f"S{rungs}": {"type": "string"}}}


def nested(levels: int, keyword: str = "items") -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: schema}
    return schema


EXTERNAL = ["http://{}/x", "https://{}/x#/a", "file:///etc/passwd", "other.json", "../up.json", "//{}/x", "ftp://{}/x"]


@each("reference", EXTERNAL)
@each("keyword", ["$ref", "$dynamicRef", "extends"])
async def test_s01_a_reference_out_of_the_listing_is_quarantined_and_never_fetched(
    keyword: str, reference: str
) -> None:
    stranger = Bystander()
    await stranger.open()
    try:
        entry = await refused({"items": {keyword: reference.format(f"127.0.0.1:{stranger.port}")}})
        assert "leads out of the listing" in entry.reason
        assert entry.pointer.startswith(f"/properties/p/items/{keyword}")
        assert stranger.connections == 0
    finally:
        await stranger.close()


@each("keyword", ["$schema", "$id", "id", "$vocabulary"])
async def test_s01_s10_names_of_documents_elsewhere_are_left_out_and_never_fetched(keyword: str) -> None:
    stranger = Bystander()
    await stranger.open()
    try:
        url = f"http://127.0.0.1:{stranger.port}/x"
        catalog = await built({keyword: url, "type": "string"}, result={keyword: url, "type": "string"})
        assert [tool.name for tool in catalog.tools] == ["good", "m0", "r"]
        assert catalog.tools[1].input_schema["properties"]["p"].get(keyword, {}) in ({}, url)
        assert stranger.connections == 0
    finally:
        await stranger.close()


@each_row
async def test_s02_recursion_without_descent_is_quarantined(schema: Json) -> None:
    entry = await refused(schema)
    assert "back to itself" in entry.reason


async def test_s02_recursion_with_descent_is_a_tool() -> None:
    check = await validator({"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}})
    assert check.is_valid({"p": {"next": {"next": {"n": 1}}}})
    assert not check.is_valid({"p": {"next": {"next": {"n": "x"}}}})


PATTERNS = [
    "^(a+)+$", "(.*a){25}b", "(a{1000}){1000}", "(unclosed", r"\p{L}+$", r"(?<=x)a", r"(a)\1", "[ab]*a[ab]{500}c",
    "x" * 60_000,
]  # fmt: skip


@each("pattern", PATTERNS)
async def test_s03_s04_any_expression_makes_a_tool_whose_check_is_quick_and_is_published(pattern: str) -> None:
    with promptly():
        catalog = await built({"type": "string", "pattern": pattern})
    assert catalog.tools[1].input_schema["properties"]["p"]["pattern"] == pattern
    check = await validator({"type": "string", "pattern": pattern})
    text = "".join(random.Random(7).choices("ab", k=1_000_000))
    for length in (50, 5_000, 1_000_000):
        with promptly(0.25):
            check.faults({"p": text[:length]})


@each(("pattern", "text"), [(r"^\d+$", "٣"), ("^a$", "a\n")])
async def test_s05_expressions_mean_what_they_mean_in_ecma_262(pattern: str, text: str) -> None:
    assert not (await validator({"pattern": pattern})).is_valid({"p": text})


LADDERS = {
    **{f"{word}, {n} rungs": ladder(n, lambda ref, word=word: {word: [ref, ref]})
       for word in ("anyOf", "allOf", "oneOf") for n in (14, 25, 150)},
    "not and if": ladder(25, lambda ref: {"not": ref, "if": ref, "then": True}),
    "types": ladder(25, lambda ref: {"type": [ref, "null", ref]}),
    "extends": ladder(25, lambda ref: {"extends": [ref, ref]}),
    "unevaluatedProperties": ladder(12, lambda ref: {"anyOf": [ref], "unevaluatedProperties": False}),
    "unevaluatedItems on the way down": ladder(
        20, lambda ref: {"anyOf": [{"prefixItems": [ref]}], "unevaluatedItems": False}),
    "many alternatives": {"anyOf": [{"const": n} for n in range(MAX_SUBSCHEMAS)]},
    "an enum of objects": {"items": {"enum": [{"k": n, "l": [n]} for n in range(999)]}},
}  # fmt: skip


@each("schema", LADDERS)
async def test_s06_a_ladder_is_quarantined_at_once(schema: Json) -> None:
    await refused(schema)


async def test_s06_below_the_bound_a_large_value_is_refused_rather_than_checked_for_long() -> None:
    check = await validator({"items": {"anyOf": [{"const": f"v{n}"} for n in range(900)]}})
    for values in (["v899"] * 20_000, [300] * 20_000):
        with promptly():
            assert not check.is_valid({"p": values})
            assert check.faults({"p": values}) == [TOO_LARGE]
    with promptly(0.1):
        assert check.is_valid({"p": ["v899"] * 500})
        assert check.faults({"p": ["x"] * 500}) == [MISMATCH]


async def test_s06_many_faults_are_told_of_as_the_first() -> None:
    check = await validator({"items": {"type": "integer"}})
    with promptly():
        assert len(check.faults({"p": ["x"] * 200_000})) == 1


LARGE = {
    "levels": (nested(3000), "nested deeper than 32 levels"),
    "levels of not": (nested(3000, "not"), "nested deeper than 32 levels"),
    "a text": ({"description": "x" * 50, "const": "y" * 2**20}, "more than 64 KiB"),
    "properties": ({"properties": {f"p{n}": {} for n in range(10_000)}}, "more than 2000 subschemas"),
    "closed properties": ({"properties": {f"p{n}": True for n in range(10_000)}}, "more than 2000 subschemas"),
    "an enum": ({"enum": [f"v{n}" for n in range(200_000)]}, f"more than {MAX_ENUM}"),
    "data that nests": ({"default": nested(3000)}, "cannot be written as JSON"),
}


@each(("schema", "reason"), LARGE)
async def test_s07_size_depth_subschemas_and_enums_are_bounded(schema: Json, reason: str) -> None:
    entry = await refused(schema)
    assert reason in entry.reason


async def test_s07_what_is_referred_to_counts() -> None:
    components = {f"C{n}": {"properties": {f"p{i}": {} for i in range(50)}} for n in range(60)}
    whole = {"properties": {name: {"$ref": f"#/components/schemas/{name}"} for name in components}}
    assert "subschemas" in (await refused(whole, components)).reason


async def test_s08_uniqueness_of_many_objects_is_checked_at_once() -> None:
    check = await validator({"type": "array", "uniqueItems": True})
    values = [{"id": n, "tags": ["x"]} for n in range(20_000)]
    with promptly(0.5):
        assert check.is_valid({"p": values})
        assert not check.is_valid({"p": [*values, {"tags": ["x"], "id": 5}]})


async def test_s07_many_definitions_of_one_name_are_told_apart_at_once() -> None:
    refs = [{"$ref": f"#/components/schemas/{n}/X"} for n in range(900)]
    components = {str(n): {"X": {"minimum": n}} for n in range(900)}
    with promptly(0.1):
        catalog = await built({"prefixItems": refs}, components=components)
    assert len(catalog.tools[1].input_schema["$defs"]) == 900


@each("schema", [[], None, True, {}, 5, "string"])
async def test_s09_what_says_nothing_about_an_argument_lets_any_value_in(schema: Any) -> None:
    (tool,) = [tool for tool in (await built(schema)).tools if tool.name == "m0"]
    assert tool.input_schema["properties"]["p"] == {}


@each_row
async def test_s09_what_is_no_schema_is_quarantined_with_its_place(schema: Any, pointer: str) -> None:
    assert (await refused(schema)).pointer == pointer


async def test_s10_schemas_of_older_drafts_are_upgraded_with_or_without_their_name() -> None:
    old = {"minimum": 0, "exclusiveMinimum": True, "items": [{"type": "string"}], "divisibleBy": 2}
    new = {"exclusiveMinimum": 0, "prefixItems": [{"type": "string"}], "multipleOf": 2}
    catalog = await built(old, {"$schema": "http://json-schema.org/draft-03/schema#", **old}, {"$schema": "x:y", **old})
    assert [tool.input_schema["properties"]["p"] for tool in catalog.tools[1:]] == [new] * 3


async def test_s15_a_backends_word_on_harmlessness_is_data() -> None:
    entry = {**GOOD, "annotations": {"readOnlyHint": True}, "x-annotations": {"readOnlyHint": True}}
    (tool,) = (
        await Builder(Params(), ValidatorCache()).build_catalog(
            parse_listing({"openrpc": "1.3", "methods": [entry]}), CatalogSettings()
        )
    ).tools
    assert tool.annotations == {}


@each("result", [{"$ref": "http://x.invalid/y"}, ladder(25, lambda r: {"anyOf": [r, r]}), nested(40)])
async def test_s21_an_unusable_result_schema_costs_the_tool_nothing_but_that_schema(result: Json) -> None:
    with promptly():
        catalog = await built(result=result)
    (tool,) = [tool for tool in catalog.tools if tool.name == "r"]
    assert tool.output_schema is None
    assert tool.meta["outputSchemaDropped"]


async def test_s21_s22_bad_entries_take_no_good_one_down_and_order_does_not_matter() -> None:
    names = ["b", "d", "a", "c"]
    entries: list[Any] = [{"name": name, "params": []} for name in names]
    bad = [5, None, [], {"name": 7}, {"name": "x", "params": [{"name": "p", "schema": {"$ref": "http://x.invalid"}}]}]
    digests = set()
    for shuffle in range(5):
        methods = [*entries, *bad]
        random.Random(shuffle).shuffle(methods)
        listing = parse_listing({"openrpc": "1.3.2", "methods": methods})
        catalog = await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())
        assert [tool.name for tool in catalog.tools] == sorted(names)
        assert len(catalog.quarantined) == len(bad)
        digests.add(catalog.digest)
    assert len(digests) == 1


@each("kind", ["array", "string", ["array", "null"]])
async def test_s09_arguments_that_are_no_object_are_quarantined_until_an_override_names_them(kind: Any) -> None:
    listing = Listing("jsonrpc_mcp", (Method("m", input_schema={"type": kind}),))
    catalog = await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())
    (entry,) = catalog.quarantined
    assert (entry.name, entry.pointer) == ("m", "/type")
    assert entry.remedy == 'give it a schema under catalog.tools."m".arguments'
    freeing = CatalogSettings.model_validate({"tools": {"m": {"arguments": {"a": {"schema": {"type": "string"}}}}}})
    (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, freeing)).tools
    assert list(tool.input_schema["properties"]) == ["a"]
