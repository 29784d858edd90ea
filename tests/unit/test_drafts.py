"""Older drafts, and the slips of listings, said in 2020-12: by rule, and beside the reference implementation."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import referencing
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.catalog.normalize import ToolPolicy, build_tool
from gateway.model import Method, NameStyle, Parameter
from gateway.schema.bundling import UnsoundSchema, bundle_schema
from gateway.schema.validation import ValidatorCache
from gateway.settings import Params, ToolOverride
from tests.each import each
from tests.tables import each_row

Json = dict[str, Any]
DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
VALIDATORS = ValidatorCache()
TEXT = {"type": "string"}


@each_row
def test_older_words_are_said_in_2020_12(written: Json, said: Json) -> None:
    assert bundle_schema(written, {}) == said


@each("keyword", ["extends", "disallow", "divisibleBy", "enums"])
def test_words_of_draft_3_mean_nothing_where_a_later_draft_is_named(keyword: str) -> None:
    published = bundle_schema({"$schema": DRAFT_7, keyword: ["http://example.invalid"]}, {})
    assert published == {keyword: ["http://example.invalid"]}


def test_a_dialect_that_is_unknown_is_read_like_none() -> None:
    schema = {"$schema": "http://example.invalid/mine", "divisibleBy": 2, "items": [TEXT]}
    assert bundle_schema(schema, {}) == {"multipleOf": 2, "prefixItems": [TEXT]}


# --- Kodi's inheritance ---------------------------------------------------------------------------------------

KODI = {
    "id": "http://xbmc.org/jsonrpc/ServiceDescription.json",
    "types": {
        "Item.Base": {"id": "Item.Base", "properties": {"label": {"type": "string", "required": True}},
                      "type": "object", "additionalProperties": False},
        "Item.Movie": {"id": "Item.Movie", "extends": "Item.Base", "properties": {"year": {"$ref": "Year"}},
                       "additionalProperties": False},
        "Year": {"id": "Year", "type": "integer"},
        "Filter": {"id": "Filter", "type": [{"properties": {"and": {"items": {"$ref": "Filter"}, "type": "array",
                                                                    "required": True}}}, {"$ref": "Year"}]},
    },
}  # fmt: skip


def test_a_type_that_extends_a_closed_one_takes_the_properties_of_both_and_no_others() -> None:
    published = bundle_schema({"$ref": "Item.Movie"}, KODI)
    movie = VALIDATORS.compile(published)
    assert movie.is_valid({"label": "x", "year": 2000})
    assert not movie.is_valid({"year": 2000})
    assert not movie.is_valid({"label": "x", "year": "y"})
    assert not movie.is_valid({"label": "x", "other": 1})
    base = VALIDATORS.compile(bundle_schema({"$ref": "Item.Base"}, KODI))
    assert base.is_valid({"label": "x"})
    assert not base.is_valid({"label": "x", "year": 2000})


def test_types_are_found_by_their_bare_names_and_recursion_stays() -> None:
    assert bundle_schema({"type": "array", "items": {"$ref": "Filter"}}, KODI) == {
        "type": "array",
        "items": {"$ref": "#/$defs/Filter"},
        "$defs": {
            "Filter": {
                "anyOf": [
                    {
                        "properties": {"and": {"items": {"$ref": "#/$defs/Filter"}, "type": "array"}},
                        "required": ["and"],
                    },
                    {"$ref": "#/$defs/Year"},
                ]
            },
            "Year": {"type": "integer"},
        },
    }


def test_a_parameter_that_says_itself_that_it_is_required_is_so() -> None:
    parameters = (Parameter("a", {"$ref": "Year", "required": True}), Parameter("b", {"type": "string"}))
    method = Method("m", parameters=parameters, root=KODI)

    def required(override: Any) -> Any:
        names = dict.fromkeys(NameStyle, "m")
        tool = build_tool(method, names, ToolOverride.model_validate(override), ToolPolicy(Params()), VALIDATORS)
        return tool.input_schema.get("required")

    assert required({}) == ["a"]
    assert required({"arguments": {"a": {"required": False}}}) is None


# --- beside the reference implementation ----------------------------------------------------------------------

PLAIN = st.none() | st.booleans() | st.integers(-4, 4) | st.text("ab", max_size=3)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)
SHARED = {
    "enum": st.lists(PLAIN, min_size=1, max_size=3, unique_by=repr),
    "minimum": st.integers(-3, 3),
    "minLength": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "pattern": st.sampled_from(["a", "^b"]),
}


def schemas(leaves: Any, combined: Any) -> Any:
    return st.recursive(st.fixed_dictionaries({}, optional=SHARED | leaves), combined, max_leaves=6)


def combining(own: Any) -> Any:
    def combined(inner: Any) -> Any:
        several = st.lists(inner, min_size=1, max_size=2)
        shared = {
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "patternProperties": st.dictionaries(st.sampled_from(["^a"]), inner, max_size=1),
            "items": inner | several,
            "additionalItems": inner | st.booleans(),
        }
        return st.fixed_dictionaries({}, optional=shared | own(inner, several))

    return combined


EXCLUSIVE = {"exclusiveMinimum": st.booleans(), "maximum": st.integers(-3, 3), "exclusiveMaximum": st.booleans()}
UNIONS = lambda inner, several: {"anyOf": several, "allOf": several, "oneOf": several, "not": inner}  # noqa: E731
DRAFTS = {
    DRAFT_3: (
        jsonschema.Draft3Validator,
        schemas(
            {"type": TYPES | st.just("any"), "divisibleBy": st.integers(1, 3), "required": st.booleans()},
            combining(
                lambda inner, several: {
                    "type": st.lists(TYPES | inner, min_size=1, max_size=2),
                    "disallow": TYPES | st.lists(TYPES | inner, min_size=1, max_size=2),
                    "extends": inner | several,
                    "dependencies": st.dictionaries(st.sampled_from("ab"), st.sampled_from("bc") | NAMES | inner),
                }
            ),
        ),
    ),
    DRAFT_4: (
        jsonschema.Draft4Validator,
        schemas(
            {"type": TYPES, "multipleOf": st.integers(1, 3), "required": NAMES, **EXCLUSIVE},
            combining(
                lambda inner, several: (
                    UNIONS(inner, several) | {"dependencies": st.dictionaries(st.sampled_from("ab"), NAMES | inner)}
                )
            ),
        ),
    ),
    DRAFT_7: (
        jsonschema.Draft7Validator,
        schemas(
            {"type": TYPES, "const": PLAIN, "exclusiveMinimum": st.integers(-3, 3), "required": NAMES},
            combining(
                lambda inner, several: (
                    UNIONS(inner, several)
                    | {"if": inner, "then": inner, "else": inner, "contains": inner, "propertyNames": inner}
                    | {"dependencies": st.dictionaries(st.sampled_from("ab"), NAMES | inner)}
                )
            ),
        ),
    ),
    DRAFT_2019: (
        jsonschema.Draft201909Validator,
        schemas(
            {"type": TYPES, "const": PLAIN, "required": NAMES, "dependentRequired": st.just({"a": ["b"]})},
            combining(lambda inner, several: UNIONS(inner, several) | {"contains": inner, "minContains": st.just(2)}),
        ),
    ),
    DRAFT_2020: (
        jsonschema.Draft202012Validator,
        st.recursive(
            st.fixed_dictionaries({}, optional=SHARED | {"type": TYPES, "required": NAMES}),
            lambda inner: st.fixed_dictionaries(
                {},
                optional={
                    "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
                    "prefixItems": st.lists(inner, min_size=1, max_size=2),
                    "items": inner,
                    "unevaluatedProperties": inner | st.booleans(),
                    **UNIONS(inner, st.lists(inner, min_size=1, max_size=2)),
                },
            ),
            max_leaves=6,
        ),
    ),
}


def extends_what_is_closed(schema: Any) -> bool:
    """Tell where we take Kodi's word rather than draft 3's, by which nothing can add to a closed type."""
    if isinstance(schema, dict):
        return ("extends" in schema and "'additionalProperties': False" in repr(schema)) or any(
            map(extends_what_is_closed, schema.values())
        )
    return isinstance(schema, list) and any(map(extends_what_is_closed, schema))


@pytest.mark.parametrize("dialect", DRAFTS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_an_upgraded_schema_decides_as_the_original_does_by_its_own_draft(dialect: str, data: Any) -> None:
    oracle, strategy = DRAFTS[dialect]
    schema = {"$schema": dialect, **data.draw(strategy)}
    assume(not extends_what_is_closed(schema))
    try:
        validator = VALIDATORS.compile(bundle_schema(schema, {}))
    except UnsoundSchema:
        assume(False)
    reference = oracle(schema, registry=referencing.Registry())
    for value in data.draw(st.lists(VALUES, min_size=1, max_size=5)):
        assert validator.is_valid(value) == reference.is_valid(value), (schema, value)
