"""Values of a schema that hide something from people reach no model, and are accepted all the same (security S13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gateway.auth.access import Access
from gateway.catalog.build import Builder
from gateway.model import Listing, Method, Tool
from gateway.schema.texts import remove_hidden_characters
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from gateway.settings.auth import Auth
from gateway.text import has_hidden_characters
from gateway.web.rest import RestProjector
from tests.each import each

Json = dict[str, Any]
HIDDEN = {
    "zero width": "ig\u200bnore",
    "bidi": "safe\u202egpj.exe",
    "tags": "Add.\U000e0049\U000e0067",
    "ESC": "\x1b[31mred",
    "a joiner": "no\u200dre",
}
Z = HIDDEN["zero width"]


async def tool_of(schema: Json, result: Any = None) -> Tool:
    listing = Listing("static", (Method("m", input_schema=schema, result=result),))
    (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())).tools
    return tool


def everywhere(text: str) -> Json:
    """A schema with the text in every place that a value or a name has."""
    return {
        "type": "object",
        "properties": {
            "enum": {"enum": ["seen", text, {"a": [text]}, {text: 1}]},
            "const": {"const": text},
            "default": {"default": {"a": text, text: ["e\u0301"]}},
            "pattern": {"type": "string", "pattern": f"^{text}$"},
            "format": {"format": text},
            "unknown": {"x-note": {"example": text, "type": text, "required": text, "pattern": text, "kept": "seen"}},
            "nested": {
                "properties": {text: {"type": "integer"}, "b": {"x-note": {text: text}}},
                "patternProperties": {text: {}},
                "required": [text, "b"],
                "dependentRequired": {text: ["b"], "b": [text]},
                "dependentSchemas": {text: {}},
                "additionalProperties": False,
            },
            "negated": {"not": {"const": text}, "minLength": 1},
            "one": {"oneOf": [{"const": text}, {"type": "integer"}]},
            "hidden": {"enum": [text]},
        },
    }


def texts(value: Any) -> Iterator[str]:
    """All texts and names within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, child in value.items():
            yield name
            yield from texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from texts(child)


@each("text", HIDDEN)
async def test_what_hides_reaches_no_model_wherever_it_stands(text: str) -> None:
    assert sum(map(has_hidden_characters, texts(everywhere(text)))) > 15
    tool = await tool_of(everywhere(text), result=everywhere(text))
    for schema in (tool.input_schema, tool.output_schema):
        assert not [found for found in texts(schema) if has_hidden_characters(found)]
        ValidatorCache().compile(schema)  # type: ignore[arg-type]


async def test_why_an_output_schema_is_left_out_hides_nothing() -> None:
    tool = await tool_of({"type": "object"}, result={"$ref": f"#/$defs/{Z}"})
    assert tool.output_schema is None
    assert tool.meta == {"outputSchemaDropped": "$ref #/$defs/ignore points to nothing"}


async def test_a_method_whose_name_hides_something_is_shown_without_it() -> None:
    listing = Listing("static", (Method(f"do.{Z}"),))
    (tool,) = (await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())).tools
    shown = RestProjector(Access(Auth(), per_caller=False)).project(tool)
    assert shown["method"] == "do.ignore"
    assert not [found for found in texts(shown) if has_hidden_characters(found)]


async def test_what_cannot_be_shown_is_left_out_and_the_rest_stays() -> None:
    shown = (await tool_of(everywhere(Z))).input_schema["properties"]
    assert shown == {
        "enum": {"enum": ["seen"]},
        "const": {},
        "default": {"default": {"a": "ignore", "ignore": ["é"]}},
        "pattern": {"type": "string"},
        "format": {"format": "ignore"},
        "unknown": {"x-note": {"kept": "seen"}},
        "nested": {
            "properties": {"b": {"x-note": {}}},
            "patternProperties": {},
            "required": ["b"],
            "dependentRequired": {"b": []},
            "dependentSchemas": {},
        },
        "negated": {"minLength": 1},
        "one": {"allOf": [{"anyOf": [{}, {"type": "integer"}]}]},
        "hidden": {},
    }


async def test_what_is_left_out_is_accepted_by_the_check_and_what_was_refused_still_is() -> None:
    tool = await tool_of(everywhere(Z))
    check = ValidatorCache().compile(tool.input_check or {})
    for arguments in (
        {"enum": Z, "const": Z, "hidden": Z, "one": Z},
        {"enum": {"a": [Z]}},
        {"nested": {Z: 1, "b": 2}},
        {"negated": "seen"},
    ):
        assert check.is_valid(arguments)
    for arguments in ({"enum": "ignore"}, {"const": "ignore"}, {"negated": Z}, {"nested": {"b": 1}}):
        assert not check.is_valid(arguments)


async def test_a_result_with_a_value_that_is_not_shown_passes_what_clients_check_it_against() -> None:
    schema = {"type": "object", "properties": {"state": {"enum": ["open", Z]}, Z: {}}, "additionalProperties": False}
    tool = await tool_of({"type": "object"}, schema)
    assert tool.output_schema == {"type": "object", "properties": {"state": {}}}
    assert ValidatorCache().compile(tool.output_schema).is_valid({"state": Z, Z: 1})
    assert not ValidatorCache().compile(tool.output_check or {}).is_valid({"state": "shut"})


@each(
    "schema",
    [
        {
            "enum": ["e\u0301", "日本語", "\u0646\u200c\u0646", "👩\u200d💻", "a\tb\nc", "a\r\nb", '\\d "x"'],
            "default": "é",
        },
        {"properties": {"enum": {"description": "d"}, "const": {"pattern": r"^\d\u200b$"}}},
    ],
)
async def test_ordinary_values_of_any_script_stay_and_are_checked_as_they_are_shown(schema: Json) -> None:
    assert remove_hidden_characters(schema) is schema
    tool = await tool_of({"type": "object", "properties": {"a": schema}})
    assert tool.input_schema["properties"]["a"] == schema
    assert tool.input_check is None


async def test_a_property_that_is_called_like_a_keyword_is_a_property() -> None:
    shown = remove_hidden_characters(
        {"properties": {"default": {"enum": [Z, "a"]}, "const": {"title": Z}, "enum": {"const": Z}}}
    )
    assert shown["properties"]["default"] == {"enum": ["a"]}
    assert shown["properties"]["enum"] == {}


async def test_tools_that_differ_in_what_is_not_shown_have_other_digests() -> None:
    one, two = [await tool_of({"properties": {"a": {"const": text}}}) for text in ("x\u200b", "x\u200b\u200b")]
    assert one.input_schema == two.input_schema
    assert one.digest != two.digest
