"""One table says what each keyword of a schema holds: the meta-schemas agree with it, and so does all that walks."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from jsonschema_specifications import REGISTRY

from gateway.catalog.names import header_parameters, publish_names
from gateway.listing import truenas
from gateway.model.schema_keywords import (
    ANNOTATIONS,
    DATA,
    DEFINITIONS,
    IN_PLACE,
    IN_PLACE_LISTS,
    KEYWORDS,
    LISTS,
    LITERAL,
    MAPS,
    OLDER,
    ONE,
)
from gateway.schema.bundling import UnsoundSchema, bundle_schema
from gateway.schema.cost import measure_cost
from gateway.schema.drafts import upgrade_keywords
from gateway.schema.patterns import patterns_of, remove_patterns_and_numbers
from gateway.schema.texts import clean_schema_texts, remove_hidden_characters
from tests.each import each

Json: TypeAlias = dict[str, Any]
Place: TypeAlias = Callable[[Json], Json]
Walker: TypeAlias = Callable[[Place], bool]

DRAFTS = [f"http://json-schema.org/draft-0{number}/schema" for number in (3, 4, 6, 7)] + [
    f"https://json-schema.org/draft/{draft}/{part}"
    for draft in ("2019-09", "2020-12")
    for part in ("schema", *(f"meta/{name}" for name in ("core", "applicator", "validation", "meta-data", "content")))
]
LATEST = "https://json-schema.org/draft/2020-12"


def properties_of(uri: str) -> Json:
    """What a meta-schema, or one of its vocabularies, says of each keyword."""
    return dict(REGISTRY.contents(uri)["properties"])


def is_schema(said: Any) -> bool:
    return said in ({"$dynamicRef": "#meta"}, {"$recursiveRef": "#"}, {"$ref": "#"})


# --- the meta-schemas ------------------------------------------------------------------------------------------


@each("uri", DRAFTS)
def test_every_keyword_of_every_draft_is_known(uri: str) -> None:
    assert properties_of(uri).keys() <= KEYWORDS | OLDER


@each("part", ["core", "applicator", "unevaluated", "validation", "meta-data", "content"])
def test_what_holds_schemas_in_2020_12_does_so_here_in_the_same_form(part: str) -> None:
    said = {keyword: form for keyword, form in properties_of(f"{LATEST}/meta/{part}").items() if form is not True}
    schemas = {keyword for keyword, form in said.items() if is_schema(form)}
    lists = {keyword for keyword, form in said.items() if form == {"$ref": "#/$defs/schemaArray"}}
    maps = {keyword for keyword, form in said.items() if is_schema(form.get("additionalProperties"))}
    assert schemas == said.keys() & ONE
    assert lists == said.keys() & LISTS
    assert maps == said.keys() & MAPS


def test_what_may_be_any_json_is_data() -> None:
    said = properties_of(f"{LATEST}/meta/validation") | properties_of(f"{LATEST}/meta/meta-data")
    anything = {keyword for keyword, form in said.items() if form is True or form.get("items") is True}
    assert anything | {"example"} == DATA


def test_annotations_are_the_meta_data_and_what_holds_definitions_or_words_for_people() -> None:
    assert {*properties_of(f"{LATEST}/meta/meta-data"), "example", "$defs", "definitions", "$comment"} == ANNOTATIONS


def test_no_keyword_holds_two_things() -> None:
    kinds = (ONE, LISTS, MAPS, LITERAL, OLDER)
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
    assert not KEYWORDS & OLDER


# --- all that walks ---------------------------------------------------------------------------------------------

HIDDEN = "\u200b"
SCHEMAS = sorted(ONE | LISTS | MAPS)


def within(keyword: str, schema: Json) -> Json:
    """A schema with another one in this keyword; by a name that is spelled like a keyword, where it has one."""
    if keyword in MAPS:
        return {keyword: {"default": schema}}
    return {keyword: [schema] if keyword in LISTS else schema}


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# Each tells whether it takes ``schema``, which stands in ``whole``, for a schema.


def finds_expressions(place: Place) -> bool:
    return "x+" in patterns_of(place({"pattern": "x+"}))


def leaves_out_expressions(place: Place) -> bool:
    return "x+" not in written(remove_patterns_and_numbers(place({"pattern": "x+"})))


def cleans_texts(place: Place) -> bool:
    return HIDDEN not in written(clean_schema_texts(place({"description": HIDDEN})))


def leaves_out_empty_enums(place: Place) -> bool:
    return '"enum": []' not in written(remove_hidden_characters({"title": HIDDEN, **place({"enum": [], "x": 1})}))


def drops_bad_header_names(place: Place) -> bool:
    return "A B" not in written(header_parameters(place({"type": "string", "x-mcp-header": "A B"}))[0])


def finds_anchors(place: Place) -> bool:
    try:
        bundle_schema({"allOf": [{"$ref": "#here"}], "x": place({"$anchor": "here"})}, {})
    except UnsoundSchema:
        return False
    return True


def mends(place: Place) -> bool:
    whole = place({"type": "bool"})
    definitions = whole.keys() & DEFINITIONS
    used = {"items": {"$ref": f"#/{definitions.pop()}/default"}} if definitions else {}
    try:
        return '"boolean"' in written(bundle_schema(whole | used, {}))
    except UnsoundSchema:
        return False


def unmarks(place: Place) -> bool:
    return "_name_" not in written(truenas._remove_own_keywords(place({"_name_": "a"})))


WALKERS = [
    finds_expressions, leaves_out_expressions, cleans_texts, leaves_out_empty_enums, drops_bad_header_names,
    finds_anchors, mends, unmarks,
]  # fmt: skip


@each("walker", WALKERS)
def test_whoever_walks_finds_the_schemas_in_every_keyword_that_holds_some(walker: Walker) -> None:
    missed = [keyword for keyword in SCHEMAS if not walker(partial(within, keyword))]
    assert missed == []


@each("walker", WALKERS)
def test_whoever_walks_takes_data_for_data(walker: Walker) -> None:
    forms: dict[str, Place] = {}
    for keyword in DATA:
        forms[keyword] = lambda schema, keyword=keyword: {keyword: schema}
        forms[f"{keyword}, a list"] = lambda schema, keyword=keyword: {keyword: [schema]}
    assert [form for form, place in forms.items() if walker(place)] == []


@each("keyword", sorted(LITERAL))
def test_a_property_that_is_called_like_a_keyword_is_a_property_to_whoever_walks(keyword: str) -> None:
    assert all(walker(lambda schema: {"properties": {keyword: schema}}) for walker in WALKERS)


@each("keyword", sorted(LITERAL))
def test_values_that_hide_are_left_out_of_a_property_that_is_called_like_a_keyword(keyword: str) -> None:
    shown = remove_hidden_characters({"properties": {keyword: {"enum": ["a", HIDDEN]}}})
    assert shown == {"properties": {keyword: {"enum": ["a"]}}}


def test_the_cost_of_a_schema_counts_what_applies_to_the_value_or_to_a_part_of_it() -> None:
    wide = {"allOf": [{}] * 5}
    counted = {keyword for keyword in SCHEMAS if measure_cost(within(keyword, wide)).breadth > 5}
    assert counted == {*SCHEMAS} - {"contentSchema", *DEFINITIONS}
    assert all(measure_cost({keyword: wide}).breadth == 1 for keyword in DATA)


def test_arguments_are_renamed_wherever_a_schema_applies_to_the_same_object() -> None:
    named = {"properties": {"a b": {}}}
    renamed = {keyword for keyword in SCHEMAS if publish_names(within(keyword, named))[1] == {"a_b": "a b"}}
    assert renamed == {*IN_PLACE, *IN_PLACE_LISTS, "dependentSchemas"}


@each("keyword", sorted(KEYWORDS | OLDER))
def test_null_is_as_good_as_absent_but_for_data(keyword: str) -> None:
    kept = upgrade_keywords({keyword: None}, None)
    assert kept == ({keyword: None} if keyword in ("const", "default") else {})
