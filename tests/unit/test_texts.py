"""Texts of a listing within schemas and ``_meta``: fit to show wherever they stand, values untouched."""

from __future__ import annotations

import json
from typing import Any

from gateway.catalog.build import Builder
from gateway.model import Listing, Method, Parameter, Tool
from gateway.schema.texts import clean_schema_texts, clean_value_texts
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.pace import quickly
from tests.tables import each_row

TAGGED = "Ad\u200bd\u202e.\U000e0049\U000e0067\x1b[31m"
CLEAN = "Add.[31m"


async def tool_of(**members: Any) -> Tool:
    listing = Listing("openrpc", (Method("m", **members),))
    (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())).tools
    return tool


def filled(schema: Any, text: str) -> Any:
    """Return the schema with the text wherever it has <text>."""
    return json.loads(json.dumps(schema).replace("<text>", json.dumps(text)[1:-1]))


@each_row
def test_a_text_is_cleaned_wherever_it_stands_in_a_schema(schema: Any) -> None:
    assert clean_schema_texts(filled(schema, TAGGED)) == filled(schema, CLEAN)


@each_row
def test_what_a_value_has_to_equal_stays(schema: Any) -> None:
    tagged = filled(schema, TAGGED)
    assert clean_schema_texts(tagged) == tagged


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
