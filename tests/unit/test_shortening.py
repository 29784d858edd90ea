"""What models are shown of a schema is shorter, and accepts the same arguments as the schema that is checked."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.catalog.pins import pin_of, schema_digest
from gateway.listing.plain import Plain
from gateway.mcp.operations import describe_server
from gateway.model import Catalog, Listing, Method, NameStyle, Parameter, Structure
from gateway.schema.bundling import MAX_DEPTH, object_schema, shorten_schema
from gateway.settings.mcp import McpServer
from tests.contract.test_dialects import CASES, answers_of, built, fetched, name_of
from tests.each import each
from tests.tables import each_row

Json = dict[str, Any]
NAMES: Final = ("a", "b_c", "Filter", "x")
names = st.sampled_from(NAMES)
titles = st.sampled_from(["A", "B c", "filter", "Another"])
literals = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "ab"])
values = st.recursive(
    literals, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
types = st.sampled_from(["null", "boolean", "integer", "string", "array", "object"])


def reference(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def few(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Return schemas of a few of these keywords: of many together, the oracle takes minutes."""
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return chosen.flatmap(lambda picked: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in picked}))


def parts(later: tuple[str, ...]) -> st.SearchStrategy[Json]:
    """Return schemas whose references on the same value lead to ``later`` definitions, so that none leads to itself."""
    leaf = few(
        type=types,
        enum=st.lists(literals, min_size=1, max_size=3),
        maxItems=st.integers(0, 2),
        title=titles,
        default=literals | st.builds(reference, names),
    )
    anywhere = leaf | st.builds(reference, names) | st.builds(lambda name: {**reference(name), "title": "A"}, names)
    in_place = leaf | st.booleans()
    if later:
        in_place |= st.sampled_from([reference(name) for name in later])
    several = st.lists(in_place, min_size=1, max_size=2)
    more: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(names, anywhere, min_size=1, max_size=3),
        "additionalProperties": anywhere,
        "unevaluatedProperties": leaf | st.just(False),
        "required": st.lists(names, max_size=2, unique=True),
        "items": anywhere,
        "prefixItems": st.lists(anywhere, min_size=1, max_size=2),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": in_place,
        "x-unknown": st.builds(reference, names),
        "title": titles,
    }
    if later:
        more["$ref"] = st.sampled_from([reference(name)["$ref"] for name in later])
    return few(**more)


documents = st.builds(
    lambda root, definitions: {**root, "$defs": dict(zip(NAMES, definitions, strict=True))},
    parts(NAMES),
    st.tuples(*(parts(NAMES[place + 1 :]) for place in range(len(NAMES)))),
)


@given(documents, st.lists(values, min_size=1, max_size=8))
def test_a_shortened_schema_accepts_the_same_values(schema: Json, candidates: list[Any]) -> None:
    short = shorten_schema(schema)
    before, after = Draft202012Validator(schema), Draft202012Validator(short)
    for value in candidates:
        assert before.is_valid(value) == after.is_valid(value)
    assert len(str(short)) <= len(str(schema))
    Draft202012Validator.check_schema(short)


@each("case", CASES, ids=name_of)
async def test_pins_and_checks_have_the_schema_as_it_was_and_its_models_a_shorter_one(case: Any) -> None:
    for tool in (await built(await fetched(case.parent.name, answers_of(case)))).tools:
        assert pin_of(tool).input_schema == schema_digest(tool.input_schema)
        assert tool.checked_schema.items() >= (tool.input_check or tool.input_schema).items()
        shown = tool.schemas_for(NameStyle.MCP)[0]
        assert len(str(shown)) <= len(str(tool.input_schema))
        Draft202012Validator.check_schema(shown)


@each_row
def test_a_definition_that_one_reference_names_takes_its_place(schema: Json, expected: Json) -> None:
    assert shorten_schema(schema) == expected


@each_row
def test_shared_definitions_recursion_and_other_pointers_stay(schema: Json) -> None:
    assert shorten_schema(schema) == {
        keyword: part for keyword, part in schema.items() if keyword != "$defs" or "default" not in schema
    }


def test_a_chain_of_definitions_does_not_become_a_deep_schema() -> None:
    chain = {f"d{place}": {"items": {"$ref": f"#/definitions/d{place + 1}"}} for place in range(500)}
    listed = {"properties": {"x": {"$ref": "#/definitions/d0"}}, "definitions": {**chain, "d500": {"type": "null"}}}
    short = shorten_schema(object_schema(listed))
    assert depth(short) < 4 * MAX_DEPTH


def depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, children), default=0)


async def test_what_lone_params_are_is_said_once_for_all_tools() -> None:
    unknown = [Method(name, parameters=None, structure=Structure.UNKNOWN) for name in ("one", "two")]
    known = Method("three", parameters=(Parameter("params", {"type": "array", "description": "mine"}),))
    catalog = await built(Listing(Plain.name, (*unknown, known)))
    shown = {tool.name: tool.schemas_for(NameStyle.LLM)[0]["properties"]["params"] for tool in catalog.tools}
    assert shown["one"] == shown["two"] == {"type": ["array", "object"]}
    assert shown["three"]["description"] == "mine"
    assert all("description" in tool.input_schema["properties"]["params"] for tool in catalog.tools)
    info = describe_server(McpServer(), catalog.service, catalog.hints)
    assert info.instructions.count("by position a list, by name an object") == 1
    own = McpServer(instructions="Ask first.")
    assert describe_server(own, catalog.service, catalog.hints).instructions == "Ask first."
    assert Catalog((), Plain.name).hints == ()
