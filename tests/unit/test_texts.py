"""Texts of a listing within schemas and ``_meta``: fit to show wherever they stand, values untouched."""

from __future__ import annotations

from typing import Any

from gateway.catalog.build import Builder
from gateway.model import Listing, Method, Parameter, Tool
from gateway.schema.texts import clean_schema_texts, clean_value_texts
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each
from tests.pace import quickly

TAGGED = "Ad\u200bd\u202e.\U000e0049\U000e0067\x1b[31m"
CLEAN = "Add.[31m"


async def tool_of(**members: Any) -> Tool:
    listing = Listing("openrpc", (Method("m", **members),))
    (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())).tools
    return tool


PLACES = {
    "a description": ({"description": TAGGED}, {"description": CLEAN}),
    "a title": ({"title": TAGGED}, {"title": CLEAN}),
    "a comment": ({"$comment": TAGGED}, {"$comment": CLEAN}),
    "a keyword of somebody's own": ({"x-hint": TAGGED}, {"x-hint": CLEAN}),
    "a list of somebody's own": ({"x-enumNames": [TAGGED, 1]}, {"x-enumNames": [CLEAN, 1]}),
    "a map of somebody's own": ({"x-doc": {"text": TAGGED}}, {"x-doc": {"text": CLEAN}}),
    "an item": ({"items": {"description": TAGGED}}, {"items": {"description": CLEAN}}),
    "a property": ({"properties": {"a": {"title": TAGGED}}}, {"properties": {"a": {"title": CLEAN}}}),
    "a property called title": (
        {"properties": {"title": {"description": TAGGED}}},
        {"properties": {"title": {"description": CLEAN}}},
    ),
    "an alternative": ({"anyOf": [{"description": TAGGED}]}, {"anyOf": [{"description": CLEAN}]}),
    "a definition": ({"$defs": {"enum": {"title": TAGGED}}}, {"$defs": {"enum": {"title": CLEAN}}}),
}


@each(("schema", "shown"), PLACES)
def test_a_text_is_cleaned_wherever_it_stands_in_a_schema(schema: Any, shown: Any) -> None:
    assert clean_schema_texts(schema) == shown


VALUES = {
    "labels of an enum": {"enum": [TAGGED, "e\u0301"]},
    "a constant": {"const": TAGGED},
    "a default": {"default": {"description": TAGGED}},
    "examples": {"examples": [TAGGED]},
    "a pattern": {"pattern": "^\u200b$"},
    "names of properties": {
        "properties": {"a\u200b": {}},
        "required": ["a\u200b"],
        "dependentRequired": {"a\u200b": []},
    },
    "a reference": {"$ref": "#/$defs/\u200b", "$defs": {"\u200b": True}},
    "numbers and booleans": {"minimum": 1, "uniqueItems": True, "additionalProperties": False, "x": None},
}


@each("schema", VALUES)
def test_what_a_value_has_to_equal_stays(schema: Any) -> None:
    assert clean_schema_texts(schema) == schema


def test_the_order_of_members_stays() -> None:
    schema = {"type": "object", "description": "é", "properties": {"b": {}, "a": {}}}
    assert list(clean_schema_texts(schema)) == list(schema)
    assert list(clean_schema_texts(schema)["properties"]) == ["b", "a"]


def test_long_texts_within_a_schema_are_cut() -> None:
    shown = clean_schema_texts({"title": "t" * 999, "items": {"description": "d" * 9999}})
    assert len(shown["title"].encode()) == 256
    assert len(shown["items"]["description"].encode()) == 4096


def test_meta_is_cleaned_with_the_names_of_its_members() -> None:
    assert clean_value_texts({TAGGED: [{"a": TAGGED}, 1, None]}) == {CLEAN: [{"a": CLEAN}, 1, None]}


async def test_descriptions_made_of_combining_marks_cost_no_time() -> None:
    heap = "a" + "\u0316\u0301" * 32_000
    schema = {"type": "string", "title": heap[:10_000], "x-hint": heap[:10_000]}
    with quickly(0.3):
        tool = await tool_of(title=heap, description=heap, parameters=(Parameter("a", schema, description=heap),))
    assert tool.description.startswith("á")
    assert len(tool.description) < 40


async def test_a_tool_has_no_hidden_character_anywhere_that_a_model_reads() -> None:
    schema = {"type": "object", "title": TAGGED, "properties": {"x": {"description": TAGGED}}}
    tool = await tool_of(
        title=TAGGED,
        description=TAGGED,
        parameters=(Parameter("a", schema, description=TAGGED), Parameter("b", {"$ref": "#/B"})),
        result={"type": "object", "description": TAGGED},
        root={"B": {"type": "string", "description": TAGGED}},
        annotations={"category": TAGGED},
        meta={"tags": [TAGGED]},
    )
    shown = [tool.title, tool.description, tool.input_schema, tool.output_schema, tool.annotations, tool.meta]
    assert str(shown).count("Ad") == str(shown).count(CLEAN) == 9
    assert str(shown).isascii()
